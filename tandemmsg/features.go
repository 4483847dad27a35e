package tandemmsg

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The names of Tandem's features among the SupportedFeatures of an ApiVersions answer (v3+). All have version 1.
const (
	FeatureIndividualCommit = "tandem.individual.commit" // OffsetRanges, the metadata text, KeyRanges and KeyAxisBase in commits and OffsetFetch, CommittedRangeOffsets
	FeatureKeyRangeFetch    = "tandem.key.range.fetch"   // KeyRanges and KeyAxisBase in Fetch, ScannedOffset
	FeatureCooperativeFetch = "tandem.cooperative.fetch" // GroupId, GenerationId, MemberId, SessionTimeout, MaxRecords and AcquiredRanges in Fetch
)

const featureVersion = 1

// Features says which additions a server understands. A plain Kafka broker understands none, and ignores their tags: a client
// has to look first, since that broker would take the plain offset -1 of an individual commit as it is.
type Features struct {
	IndividualCommit, KeyRangeFetch, CooperativeFetch bool
}

// ReadFeatures returns the features that an ApiVersions answer lists with a version that this package speaks.
func ReadFeatures(resp *kmsg.ApiVersionsResponse) Features {
	var f Features
	for i := range resp.SupportedFeatures {
		s := &resp.SupportedFeatures[i]
		on := s.MinVersion <= featureVersion && featureVersion <= s.MaxVersion
		switch s.Name {
		case FeatureIndividualCommit:
			f.IndividualCommit = on
		case FeatureKeyRangeFetch:
			f.KeyRangeFetch = on
		case FeatureCooperativeFetch:
			f.CooperativeFetch = on
		}
	}
	return f
}

// SetFeatures lists the features that are on in an ApiVersions answer, in place of those of Tandem's that it lists. Versions
// below 3 have no place for them.
func SetFeatures(resp *kmsg.ApiVersionsResponse, f Features) {
	list := slices.DeleteFunc(slices.Clone(resp.SupportedFeatures), func(s kmsg.ApiVersionsResponseSupportedFeature) bool {
		return s.Name == FeatureIndividualCommit || s.Name == FeatureKeyRangeFetch || s.Name == FeatureCooperativeFetch
	})
	add := func(name string) {
		s := kmsg.NewApiVersionsResponseSupportedFeature()
		s.Name, s.MinVersion, s.MaxVersion = name, featureVersion, featureVersion
		list = append(list, s)
	}
	if f.IndividualCommit {
		add(FeatureIndividualCommit)
	}
	if f.KeyRangeFetch {
		add(FeatureKeyRangeFetch)
	}
	if f.CooperativeFetch {
		add(FeatureCooperativeFetch)
	}
	resp.SupportedFeatures = list
}
