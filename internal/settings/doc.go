// Package settings defines each setting of the server once: its flag, variable, default,
// range and help. A kong parser fills the structs from flags and environment variables,
// and checks them.
//
// A flag takes precedence over its variable, and a variable over the default. An empty variable counts
// as unset. Settings that envoyproxy/ratelimit also has keep the names and defaults that they have
// there. A value is a setting only if users have a reason to choose it; other values are constants in
// the code. The package starts nothing; package follow below it reads the files of secrets and TLS.
//
// Read settings.go first.
//
//	settings.go     a field for each setting; docs/settings.md is generated from it
//	redisserver.go  the settings of Redis: addresses, users, passwords
//	values.go       types of values, such as ports, words, switches and secrets
//	check.go        checks by the tags "form", "min", "max", "with" and "needs"; other checks;
//	                variables without effect
//	secrets.go      the settings that name the file or the command of a secret
package settings
