// Package tlsfiles is TLS from PEM files that are read anew when they change,
// for servers and for clients.
//
// The files are compared by their contents every few seconds, because
// ConfigMaps, Secrets and cert-manager replace them in ways that not every file
// system reports. What was read last and was good stays in use until the next
// good files. A connection keeps what it began with.
//
// The file watcher of grpc-go is not used: it writes the private key into its
// log when that does not match the certificate, which every replacement of two
// files may look like for a moment; it also wants both in one directory, and
// leaves to the caller to find out that they are bad.
package tlsfiles
