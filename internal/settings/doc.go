// Package settings holds every setting of the server once: its flag, variable, default,
// range and help. A parser of kong fills the structs from flags and environment variables.
//
// What comes in are flags and the environment, what goes out is one Settings that is
// checked. A flag wins over its variable, a variable over the default, and a variable
// that is set to nothing counts as unset. Names and defaults are those of
// envoyproxy/ratelimit where it has the setting; what it has beyond them is in
// reference.go, because to ignore some of it would be unsafe. Other variables
// are ignored. The package starts nothing; package follow below it reads the files of
// secrets and of TLS, and reads them anew.
//
// Read settings.go first.
//
//	settings.go   the table: a field for each setting; docs/settings.md follows from it
//	redis.go      its part that is about Redis
//	values.go     what kinds of values there are, and what is wrong with others
//	parse.go      how the parser reads numbers, durations and switches
//	check.go      what a value alone cannot say
//	secrets.go    which settings name the file or the command of a secret
//	reference.go  variables of envoyproxy/ratelimit without effect
package settings
