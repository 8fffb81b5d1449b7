package settings

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"weir/internal/descriptors/spelling"
)

// AfterApply checks the parsed settings and completes them. The error lists all problems. The parser
// calls AfterApply.
func (s *Settings) AfterApply(ctx *kong.Context) error {
	var errs []error
	flags := slices.DeleteFunc(ctx.Flags(), func(f *kong.Flag) bool { return len(f.Envs) == 0 })
	for _, flag := range flags {
		value := flag.Mapper.(*tolerant)
		err := value.err
		flag.Set, value.err = false, nil // for the next use of the parser
		if err != nil {
			errs = append(errs, wrong(flag.Envs[0], "%w", err))
			continue
		}
		errs = append(errs, checkFlag(flag))
		if variable := flag.Envs[0]; !s.Redis.Main.Named() && strings.HasPrefix(variable, "REDIS_") && os.Getenv(variable) != "" {
			s.Redis.Variables = append(s.Redis.Variables, variable)
		}
	}
	isSize := func(p *kong.Path) bool {
		return p.Flag != nil && !p.Resolved && p.Flag.Name == "local-cache-size-in-bytes"
	}
	s.Redis.DenyCharged = s.Store.StopWhenOverLimit == "false" && (os.Getenv("LOCAL_CACHE_SIZE_IN_BYTES") != "" || slices.ContainsFunc(ctx.Path, isSize))
	errs = append(errs, s.checkTogether(flags), s.checkSources(), s.Check())
	s.Listen.complete()
	var err error
	s.Metrics.Mogrifiers, err = mogrifiers(s.Metrics.DogStatsdMogrifiers)
	s.Invalid = errors.Join(append(errs, err)...)
	return s.Invalid
}

// complete sets an empty DebugHost to 127.0.0.1 if operators have no token, or to 0.0.0.0 if they have
// one. If Proto is tcp6, it replaces these two addresses in all hosts with their IPv6 equivalents.
func (l *Listen) complete() {
	if l.DebugHost == "" {
		l.DebugHost = "127.0.0.1"
		if l.AdminTokenFile != "" {
			l.DebugHost = "0.0.0.0"
		}
	}
	ipv6 := map[string]string{"0.0.0.0": "::", "127.0.0.1": "::1"}
	for _, host := range []*string{&l.GRPCHost, &l.Host, &l.DebugHost} {
		if other, ok := ipv6[*host]; ok && l.Proto == "tcp6" {
			*host = other
		}
	}
}

// portPattern matches a port up to 65535.
const portPattern = "([0-5]?[0-9]{1,4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"

// forms are the values of the tag "form", with the texts that they allow. Errors do not quote the
// text, because it may be a secret in the wrong setting.
var forms = map[string]struct {
	pattern *regexp.Regexp
	is      string
}{
	"address":     {regexp.MustCompile(":" + portPattern + "$"), "host:port or :port"},
	"path":        {regexp.MustCompile(`^(/[^/{} ?#]*[^./{} ?#][^/{} ?#]*)*/?$`), "the path of a URL, such as /metrics"},
	"endpoint":    {regexp.MustCompile(`^https?://[^/@?#\s]+([/?][^#\s]*)?$`), "a URL with http:// or https://, without a user or a password"},
	"header":      {regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]*$"), "the name of a header"},
	"prefix":      {regexp.MustCompile(`^[^|\x{FFFD}]*$`), "UTF-8 without '|'"},
	"secret file": {regexp.MustCompile(`^\.?/`), "the path of a file, which begins with / or ./"},
	"target":      {regexp.MustCompile(`^((dns|passthrough|unix|unix-abstract):/*[^/@][^@]*|[^@/]*:` + portPattern + `)$`), "host:port without a user or a password, or a target of gRPC such as unix:/run/xds.sock"},
}

// checkFlag checks a text against the tag "form", and a number or duration against the tags "min" and "max".
func checkFlag(flag *kong.Flag) error {
	var n float64
	switch value, form := flag.Target, forms[flag.Tag.Get("form")]; {
	case (flag.PlaceHolder == "FILE" || flag.PlaceHolder == "PATH") && strings.Contains(value.String(), "-----BEGIN"): // the error must not quote a key
		return wrong(flag.Envs[0], "contains the file's content; set it to the path of the file")
	case form.pattern != nil && value.String() != "" && !form.pattern.MatchString(value.String()):
		if flag.Tag.Get("form") == "target" { // weir check must not connect to it
			value.SetZero()
		}
		return wrong(flag.Envs[0], "is not allowed; use %s", form.is)
	case value.CanInt():
		n = float64(value.Int())
	case value.CanFloat():
		n = value.Float()
	}
	low, high := flag.Tag.Get("min"), flag.Tag.Get("max")
	span := low + " to " + high
	if high == "" {
		span = low + " or more"
	}
	if low != "" && !(n >= number(low)) || high != "" && !(n <= number(high)) { // refuses NaN, too
		return wrong(flag.Envs[0], "%v is not allowed; use %s", flag.Target.Interface(), span)
	}
	return nil
}

// number parses the bound in a tag; a duration is in nanoseconds. It panics if the tag is invalid.
func number(bound string) float64 {
	if d, err := time.ParseDuration(bound); err == nil {
		return float64(d)
	}
	n, err := strconv.ParseFloat(bound, 64)
	if err != nil {
		panic("settings: bad bound in a tag: " + bound)
	}
	return n
}

// checkTogether checks settings that depend on others. The tag "with" names a switch without which a
// setting has no effect. If the switch is off, that causes only a warning, because
// envoyproxy/ratelimit also starts then. The tag "needs" names settings that the setting requires.
func (s *Settings) checkTogether(flags []*kong.Flag) error {
	set := map[string]bool{}
	for _, flag := range flags {
		set[flag.Envs[0]] = !flag.Target.IsZero()
	}
	// A URL may turn on TLS, and the URL may be in a file that is read later. Without Redis, one warning
	// lists all variables of Redis.
	set["REDIS_TLS"] = s.Redis.Encrypted() || !s.Redis.Main.Named() || s.Redis.Main.URLFile != "" || s.Redis.PerSecond.URLFile != ""
	s.Warnings = nil
	for _, v := range ignoredVariables {
		if value := os.Getenv(v.variable); value != "" && !strings.EqualFold(value, v.silent) {
			s.Warnings = append(s.Warnings, Warning{v.variable, value, v.instead, false})
		}
	}
	s.Warnings = append(s.Warnings, misspelt(os.Environ(), slices.Collect(maps.Keys(set)))...)
	var errs []error
	for _, flag := range flags {
		variable, with := flag.Envs[0], flag.Tag.Get("with")
		switch {
		case !set[variable]:
		case with != "" && !set[with]:
			s.Warnings = append(s.Warnings, Warning{variable, flag.Target.String(), with + " is off", false})
		default:
			for other := range strings.FieldsSeq(flag.Tag.Get("needs")) {
				if !set[other] {
					errs = append(errs, wrong(other, "is required because %s is set", settingName(variable)))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// misspelt returns a warning for each variable whose name is nearly the name of a setting. It hides
// the value, which may be a secret. It ignores names without an underscore, such as HOME, because
// such short names are often variables of other programs.
func misspelt(environ, names []string) (list []Warning) {
	for _, v := range ignoredVariables {
		names = append(names, v.variable)
	}
	slices.Sort(names)
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if value == "" || !strings.Contains(name, "_") || slices.Contains(names, name) {
			continue
		}
		if near := spelling.Nearest(strings.ToUpper(name), names); near != "" {
			list = append(list, Warning{name, Secret(value).String(), fmt.Sprintf("did you mean %s?", near), true})
		}
	}
	return list
}

// Warning names a variable that is set but has no effect.
type Warning struct {
	Variable, Value string
	Instead         string // the actual behaviour, as a clause
	Misspelt        bool   // the name is nearly that of a setting
}

const bothRedis = "the settings REDIS_TLS_... apply to both Redis servers"

// ignored is a variable that has no effect. Any value other than silent causes a warning.
type ignored struct{ variable, silent, instead string }

var ignoredVariables = []ignored{
	{"PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", "false", "ratelimit_service_response_time_seconds is in seconds"},
	// Examples of envoyproxy/ratelimit and Envoy Gateway set this path. Weir's metrics have the file's names.
	{"PROMETHEUS_MAPPER_YAML", "/etc/statsd-exporter/conf.yaml", "metrics have the names and labels of the reference's mapping"},
	{"DESCRIPTOR_KEY_CONFIG", "", "limits sent by requests share one series per domain"},

	// Settings of earlier versions of Weir.
	{"CONFIG_POLL_INTERVAL", "", "files of rules are compared several times a second"},
	{"DECISION_LOG_SAMPLE", "1", "DECISION_LOG_RATE bounds the records"},
	{"LOCAL_CACHE_MAX_AGE", "1s", "used-up limits are denied without Redis for a second"},
	{"MEMORY_MAX_COUNTERS", "", "the container's memory limit or GOMEMLIMIT decides"},
	{"REDIS_AUTH_COMMAND_INTERVAL", "5m", "the command runs every 5 minutes and when Redis rejects the password"},
	{"REDIS_OP_TIMEOUT", "", "REDIS_TIMEOUT and the deadline of the request decide"},

	{"REDIS_PERSECOND_TLS_CACERT", "", bothRedis},
	{"REDIS_PERSECOND_TLS_CLIENT_CERT", "", bothRedis},
	{"REDIS_PERSECOND_TLS_CLIENT_KEY", "", bothRedis},
	{"REDIS_PERSECOND_TLS_SKIP_HOSTNAME_VERIFICATION", "false", bothRedis},
}

// settingName returns the name of a setting in errors: --flag ($VARIABLE).
func settingName(variable string) string {
	return fmt.Sprintf("--%s ($%s)", strings.ToLower(strings.ReplaceAll(variable, "_", "-")), variable)
}

// wrong returns an error about the setting of a variable.
func wrong(variable, format string, args ...any) error {
	return fmt.Errorf("%s: %w", settingName(variable), fmt.Errorf(format, args...))
}

// Check returns an error if a setting that may contain a secret, or a related setting, is invalid.
// Secrets from files and commands are checked only after they have been read.
func (s *Settings) Check() error {
	_, err := s.XDS.HeaderValues()
	if err != nil {
		err = wrong("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "%w", err)
	}
	if err == nil && !headerValue.MatchString(string(s.Events.Auth)) {
		err = wrong("EVENTS_AUTH", "is not the value of a header; use printable ASCII")
	}
	return errors.Join(s.Redis.check(), err)
}

// The allowed names and values of headers. Names that begin with grpc- are reserved for gRPC.
var (
	headerName  = regexp.MustCompile(`^[a-z0-9_.-]+$`)
	headerValue = regexp.MustCompile(`^[ -~]*$`)
)

// HeaderValues returns the headers by name. The error quotes no name and no value, because even a
// name may be a misplaced password.
func (x XDS) HeaderValues() (map[string]string, error) {
	list, err := pairs(string(x.Headers), ":")
	headers := map[string]string{}
	for i, pair := range list {
		name := strings.ToLower(pair.Name)
		if !headerName.MatchString(name) || strings.HasPrefix(name, "grpc-") || !headerValue.MatchString(pair.Value) {
			return nil, fmt.Errorf("header %d is not allowed; use letters, digits, -, _ and . in names, which must not begin with grpc-, and printable ASCII in values", i+1)
		}
		headers[name] = pair.Value
	}
	return headers, err
}

// Mogrifier turns parts of a metric's name into tags. In Name and the values of Tags, $1 stands for
// the text that the first group of Pattern matched, and $0 for the full match.
type Mogrifier struct {
	Pattern *regexp.Regexp
	Name    string
	Tags    []Tag
}

// mogrifiers reads the Mogrifiers with the given names from their variables. The error lists all problems.
func mogrifiers(names []string) (list []Mogrifier, err error) {
	var errs []error
	for _, name := range names {
		prefix := "DOG_STATSD_MOGRIFIER_" + strings.TrimSpace(name)
		pattern := os.Getenv(prefix + "_PATTERN")
		m := Mogrifier{Name: os.Getenv(prefix + "_NAME")}
		if m.Pattern, err = regexp.Compile(pattern); err != nil {
			errs = append(errs, fmt.Errorf("$%s_PATTERN: %w", prefix, err))
		}
		if err := (*Tags)(&m.Tags).UnmarshalText([]byte(os.Getenv(prefix + "_TAGS"))); err != nil {
			errs = append(errs, fmt.Errorf("$%s_TAGS: %w", prefix, err))
		}
		if pattern == "" || m.Name == "" {
			errs = append(errs, fmt.Errorf("$%s_PATTERN and $%[1]s_NAME are needed (see USE_DOG_STATSD_MOGRIFIERS)", prefix))
		}
		list = append(list, m)
	}
	return list, errors.Join(errs...)
}
