package settings

import (
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Metrics says what is counted and, beside PROMETHEUS_ADDR, where it is sent.
type Metrics struct {
	NearLimitRatio    Ratio `env:"NEAR_LIMIT_RATIO" default:"0.8" help:"Part of a limit from which use counts as near_limit, 0 to 1."`
	MaxDetailedSeries int   `env:"MAX_DETAILED_SERIES" default:"10000" min:"0" max:"1000000" help:"Most series made from request values. Others count under their rule."`

	UseStatsd          Choice         `env:"USE_STATSD" placeholder:"true|false" help:"Send metrics to statsd. Unset: if a server listens and USE_DOG_STATSD is not true."`
	StatsdHost         string         `env:"STATSD_HOST" default:"localhost" help:"Address of statsd and DogStatsD."`
	StatsdPort         Port           `env:"STATSD_PORT" default:"8125" help:"Port of statsd and DogStatsD."`
	StatsdProtocol     StatsdProtocol `env:"STATSD_PROTOCOL" default:"tcp" help:"tcp or udp for statsd. DogStatsD is always udp."`
	StatsFlushInterval time.Duration  `env:"STATS_FLUSH_INTERVAL" default:"10s" min:"10ms" max:"1h" help:"Time between two sends."`
	ExtraTags          Tags           `env:"EXTRA_TAGS" placeholder:"NAME:VALUE,..." help:"Tags of all that is sent, as name:value,..."`

	UseDogStatsd        bool  `name:"use-dog-statsd" env:"USE_DOG_STATSD" default:"false" help:"Send metrics to DogStatsD."`
	DogStatsdMogrifiers Words `name:"use-dog-statsd-mogrifiers" env:"USE_DOG_STATSD_MOGRIFIERS" placeholder:"NAME,..." help:"Rules that make tags from names; the first match counts. Each NAME has DOG_STATSD_MOGRIFIER_NAME_PATTERN, DOG_STATSD_MOGRIFIER_NAME_NAME and DOG_STATSD_MOGRIFIER_NAME_TAGS."`
	DisableStats        bool  `env:"DISABLE_STATS" default:"false" help:"Send nothing to statsd and DogStatsD."`

	// Mogrifiers are what the variables of DogStatsdMogrifiers say, in their order.
	Mogrifiers []Mogrifier `kong:"-"`
}

// StatsdAddress is where statsd and DogStatsD are, host:port.
func (m Metrics) StatsdAddress() string {
	return net.JoinHostPort(m.StatsdHost, strconv.Itoa(int(m.StatsdPort)))
}

// Mogrifier makes tags of parts of a metric's name. In Name and the values of
// Tags, $1 stands for what the first group of Pattern matched, $0 for all of it.
type Mogrifier struct {
	Pattern *regexp.Regexp
	Name    string
	Tags    Tags
}

// mogrifiers reads the variables of every name. The error names all that is wrong.
func mogrifiers(names []string) ([]Mogrifier, error) {
	var list []Mogrifier
	var errs []error
	for _, name := range names {
		prefix := "DOG_STATSD_MOGRIFIER_" + name
		read := func(suffix string, into func(text string) error) {
			text := os.Getenv(prefix + suffix)
			if err := into(text); err != nil {
				errs = append(errs, fmt.Errorf("$%s%s: %q: %w (see USE_DOG_STATSD_MOGRIFIERS)", prefix, suffix, text, err))
			}
		}
		var m Mogrifier
		read("_PATTERN", func(text string) (err error) {
			if text == "" {
				return errors.New("a regular expression is needed")
			}
			m.Pattern, err = regexp.Compile(text)
			return err
		})
		read("_NAME", func(text string) error {
			if text == "" {
				return errors.New("a name is needed")
			}
			m.Name = text
			return nil
		})
		read("_TAGS", func(text string) error { return m.Tags.UnmarshalText([]byte(text)) })
		list = append(list, m)
	}
	return list, errors.Join(errs...)
}

// Ratio is a number from 0 to 1.
type Ratio float32

// UnmarshalText accepts a decimal number from 0 to 1.
func (r *Ratio) UnmarshalText(text []byte) error {
	f, err := strconv.ParseFloat(string(text), 32)
	if err != nil || !(0 <= f && f <= 1) {
		return fmt.Errorf("%q is not a ratio, allowed are numbers from 0 to 1", text)
	}
	*r = Ratio(f)
	return nil
}

// StatsdProtocol is how statsd is reached: tcp or udp.
type StatsdProtocol string

// Words implements OneOf.
func (StatsdProtocol) Words() []string { return []string{"tcp", "udp"} }

// UnmarshalText accepts the words in any case.
func (p *StatsdProtocol) UnmarshalText(text []byte) error {
	return choose(p, text, "is not a protocol of statsd")
}

// Words are separated by commas.
type Words []string

// UnmarshalText accepts words of letters, digits and '_'.
func (w *Words) UnmarshalText(text []byte) error {
	var words Words
	for word := range strings.SplitSeq(string(text), ",") {
		word = strings.TrimSpace(word)
		if word == "" {
			continue
		}
		if !isWord.MatchString(word) {
			return fmt.Errorf("%q is not a name, allowed are letters, digits and '_'", word)
		}
		words = append(words, word)
	}
	*w = words
	return nil
}

var isWord = regexp.MustCompile(`^[A-Za-z0-9_]+$`)

// Tags are names with values, sorted by name.
type Tags []Tag

// Tag is one of Tags.
type Tag struct{ Name, Value string }

// UnmarshalText accepts name:value, separated by commas.
func (t *Tags) UnmarshalText(text []byte) error {
	var tags Tags
	for pair := range strings.SplitSeq(string(text), ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, ":")
		tag := Tag{strings.TrimSpace(name), strings.TrimSpace(value)}
		if tag.Name == "" || tag.Value == "" || strings.ContainsFunc(pair, isControl) {
			return fmt.Errorf("%q is not a tag, allowed is name:value without control characters", pair)
		}
		tags = append(tags, tag)
	}
	slices.SortStableFunc(tags, func(a, b Tag) int { return strings.Compare(a.Name, b.Name) })
	*t = tags
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
