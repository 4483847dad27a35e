// Package config owns the settings of tandem serve: the strict YAML file, the
// defaults, the rules between settings, and what of them may be shown.
//
// The fields' comments are the users' documentation: the table of settings in
// docs/operations.md is made from them (go test ./internal/config -update).
package config
