// Package statsd sends sums to statsd or DogStatsD, by what they grew since the
// last time.
//
// It asks a source for all sums once in an interval and keeps no other count:
// whatever counts does nothing for it. Each time it connects anew, so that
// there is no connection to lose and a changed address is found. What could not
// be sent stays due until the next time; over UDP nobody knows whether it
// arrived. It knows nothing of limits, and names are made by the source.
package statsd
