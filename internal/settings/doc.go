// Package settings holds every setting of the server once: its flag, variable, default,
// range and help. A parser of kong fills the structs from flags and environment variables.
//
// What comes in are flags and the environment, what goes out is one Settings that is
// checked. A flag wins over its variable, a variable over the default, and a variable
// that is set to nothing counts as unset. Names and defaults are those of
// envoyproxy/ratelimit where it has the setting. A setting is here only if somebody has a
// reason to choose it; everything else is a constant where it is used. The package starts
// nothing; package follow below it reads the files of secrets and of TLS, again and again.
//
// Read settings.go first.
//
//	settings.go   the table: a field for each setting; docs/settings.md follows from it
//	redisserver.go  the settings of Redis: addresses, users, passwords
//	values.go     kinds of values: ports, words, switches, secrets, names with values, and
//	              how the parser reads them
//	check.go      the tags form, min, max, with and needs, what they cannot say, and
//	              variables without effect
//	secrets.go    which settings name the file or the command of a secret
package settings
