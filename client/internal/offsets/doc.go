// Package offsets owns sets of offsets and offset ranges, for the many offsets of one partition that are not done yet.
//
// A Set takes little memory where its offsets lie near each other and where they lie far apart, so that a consumer can leave
// a million records for later. Adding, removing and finding take some ten nanoseconds when they touch the same
// neighbourhood as the call before.
//
// The package is pure. A Set is not safe for concurrent use.
package offsets
