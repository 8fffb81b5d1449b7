package settings

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// AfterApply checks and completes what a type alone cannot say, and says all that
// is wrong. It is a hook of the parser.
func (s *Settings) AfterApply(ctx *kong.Context) error {
	var names []string
	var errs []error
	for _, flag := range ctx.Flags() {
		errs = append(errs, checkFlag(flag))
		names = append(names, flag.Envs...)
	}
	for _, host := range []*string{&s.Listen.GRPCHost, &s.Listen.Host, &s.Listen.DebugHost} {
		if s.Listen.Proto == "tcp6" && *host == "0.0.0.0" { // by default, nobody has asked for it
			*host = "::"
		}
	}
	if s.Listen.DebugHost == "" {
		s.Listen.DebugHost = s.Listen.debugHost()
	}
	if !s.Redis.Main.Named() {
		s.Redis.Variables = redisVariables(names)
	}
	var err error
	s.Metrics.Mogrifiers, err = mogrifiers(s.Metrics.DogStatsdMogrifiers)
	errs = append(errs, s.checkSources(), s.TLS.check(), err, s.Check())
	s.Warnings = slices.Concat(withoutEffect(), s.unused())
	return errors.Join(errs...)
}

// debugHost is where operators are served unless somebody has asked for another address:
// from this machine only, if there is no token that tells operators from others.
func (l Listen) debugHost() string {
	switch {
	case l.AdminTokenFile == "" && l.Proto == "tcp6":
		return "::1"
	case l.AdminTokenFile == "":
		return "127.0.0.1"
	case l.Proto == "tcp6":
		return "::"
	}
	return "0.0.0.0"
}

// checkFlag compares a number or duration with the tags min and max, and refuses the
// content of a PEM file where its path belongs: else a key would be shown as the name
// of a file that is not there.
func checkFlag(flag *kong.Flag) error {
	name := func() string { return fmt.Sprintf("--%s ($%s)", flag.Name, flag.Envs[0]) }
	value := flag.Target
	if (flag.PlaceHolder == "FILE" || flag.PlaceHolder == "PATH") && strings.Contains(value.String(), "-----BEGIN") {
		return fmt.Errorf("%s: contains the file's content; set it to the path of the file", name())
	}
	if value.Kind() != reflect.Int && value.Kind() != reflect.Int64 {
		return nil
	}
	low, high := flag.Tag.Get("min"), flag.Tag.Get("max")
	span := low + " to " + high
	if high == "" {
		span = low + " or more"
	}
	if low != "" && value.Int() < number(low) || high != "" && value.Int() > number(high) {
		return fmt.Errorf("%s: %v is not allowed; use %s", name(), value.Interface(), span)
	}
	return nil
}

// number reads the bound in a tag, which is right or a bug.
func number(bound string) int64 {
	if d, err := time.ParseDuration(bound); err == nil {
		return int64(d)
	}
	n, err := strconv.ParseInt(bound, 10, 64)
	if err != nil {
		panic("settings: bad bound in a tag: " + bound)
	}
	return n
}

// settingName is what errors call the setting of a variable: --flag ($VARIABLE).
func settingName(variable string) string {
	return fmt.Sprintf("--%s ($%s)", strings.ToLower(strings.ReplaceAll(variable, "_", "-")), variable)
}

// wrong returns what is wrong with the setting of a variable.
func wrong(variable, format string, args ...any) error {
	return fmt.Errorf("%s: %w", settingName(variable), fmt.Errorf(format, args...))
}

// file is a setting that names one.
type file struct{ variable, path string }

// needed returns an error if f is not set although it is needed because of another setting.
func (f file) needed(other, is string) error {
	if f.path != "" {
		return nil
	}
	return wrong(f.variable, "a file is required because %s is %s", settingName(other), is)
}

// checkPair sees to it that a certificate comes with its key, and a key with its
// certificate.
func checkPair(cert, key file) error {
	switch {
	case cert.path != "":
		return key.needed(cert.variable, "set")
	case key.path != "":
		return cert.needed(key.variable, "set")
	}
	return nil
}

// check returns what is missing.
func (s TLS) check() error {
	if !s.On {
		return nil
	}
	errs := []error{
		file{"GRPC_SERVER_TLS_CERT", s.Cert}.needed("GRPC_SERVER_USE_TLS", "on"),
		file{"GRPC_SERVER_TLS_KEY", s.Key}.needed("GRPC_SERVER_USE_TLS", "on"),
	}
	if s.ClientSAN != "" && s.ClientCA == "" {
		errs = append(errs, wrong("GRPC_CLIENT_TLS_SAN", "%q can be checked only with %s", s.ClientSAN, settingName("GRPC_CLIENT_TLS_CACERT")))
	}
	return errors.Join(errs...)
}

// unused warns of files and names that protect nothing, because TLS is off. That
// is no error: envoyproxy/ratelimit starts with them, too.
func (s *Settings) unused() (warnings []Warning) {
	warn := func(instead string, files ...file) {
		for _, f := range files {
			if f.path != "" {
				warnings = append(warnings, Warning{f.variable, f.path, instead})
			}
		}
	}
	if t := s.TLS; !t.On {
		warn("GRPC_SERVER_USE_TLS is off: the gRPC listener speaks no TLS, and its clients are not authenticated",
			file{"GRPC_SERVER_TLS_CERT", t.Cert}, file{"GRPC_SERVER_TLS_KEY", t.Key},
			file{"GRPC_CLIENT_TLS_CACERT", t.ClientCA}, file{"GRPC_CLIENT_TLS_SAN", t.ClientSAN})
	}
	if x := s.XDS; x.Enabled() && !x.UseTLS {
		warn("CONFIG_GRPC_XDS_SERVER_USE_TLS is off: the control plane is not authenticated",
			file{"CONFIG_GRPC_XDS_CLIENT_TLS_CERT", x.ClientCert}, file{"CONFIG_GRPC_XDS_CLIENT_TLS_KEY", x.ClientKey},
			file{"CONFIG_GRPC_XDS_SERVER_TLS_CACERT", x.ServerCA}, file{"CONFIG_GRPC_XDS_SERVER_TLS_SAN", x.ServerSAN})
	}
	return warnings
}

// Check returns what is wrong with settings that hold secrets, or go with them. What
// is to come from a source is checked when it has been read.
func (s *Settings) Check() error {
	errs := []error{s.Redis.check()}
	if _, err := s.XDS.HeaderValues(); err != nil {
		errs = append(errs, wrong("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "%w", err))
	}
	if x := s.XDS; x.Enabled() && x.UseTLS {
		errs = append(errs, checkPair(file{"CONFIG_GRPC_XDS_CLIENT_TLS_CERT", x.ClientCert}, file{"CONFIG_GRPC_XDS_CLIENT_TLS_KEY", x.ClientKey}))
	}
	return errors.Join(errs...)
}

// HeaderValues are the headers by name. Its error shows nothing of them, because
// what is taken for a name may be a password, too.
func (x XDS) HeaderValues() (map[string]string, error) {
	headers := map[string]string{}
	for i, pair := range pairs(string(x.Headers)) {
		name, value, found := strings.Cut(pair, ":")
		name = strings.ToLower(strings.TrimSpace(name))
		switch {
		case !found:
			return nil, fmt.Errorf("header %d has no colon; use NAME:VALUE, separated by commas", i+1)
		case !isMetadataName.MatchString(name) || strings.HasPrefix(name, "grpc-"):
			return nil, fmt.Errorf("the name of header %d is not allowed; use letters, digits, -, _ or ., but not grpc- at the beginning", i+1)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
			return nil, fmt.Errorf("the value of header %d is not allowed; use printable characters of ASCII", i+1)
		}
		headers[name] = value
	}
	return headers, nil
}

var isMetadataName = regexp.MustCompile(`^[a-z0-9_.-]+$`)

// Mogrifier makes tags of parts of a metric's name. In Name and the values of
// Tags, $1 stands for what the first group of Pattern matched, $0 for all of it.
type Mogrifier struct {
	Pattern *regexp.Regexp
	Name    string
	Tags    Tags
}

// mogrifiers reads the variables of every name. The error names all that is wrong.
func mogrifiers(names []string) (list []Mogrifier, err error) {
	var errs []error
	for _, name := range names {
		prefix := "DOG_STATSD_MOGRIFIER_" + name
		pattern, tags := os.Getenv(prefix+"_PATTERN"), os.Getenv(prefix+"_TAGS")
		check := func(suffix, text string, err error) {
			if err != nil {
				errs = append(errs, fmt.Errorf("$%s%s: %q: %w (see USE_DOG_STATSD_MOGRIFIERS)", prefix, suffix, text, err))
			}
		}
		m := Mogrifier{Name: os.Getenv(prefix + "_NAME")}
		if m.Pattern, err = regexp.Compile(pattern); pattern == "" {
			err = errors.New("a regular expression is required")
		}
		check("_PATTERN", pattern, err)
		if m.Name == "" {
			check("_NAME", "", errors.New("a name is required"))
		}
		check("_TAGS", tags, m.Tags.UnmarshalText([]byte(tags)))
		list = append(list, m)
	}
	return list, errors.Join(errs...)
}
