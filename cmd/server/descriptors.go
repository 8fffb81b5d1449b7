package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"weir/internal/descriptors/plaintext"
	"weir/internal/offline/envoyconfig"
	"weir/internal/offline/explain"
	"weir/internal/operators/text"
)

// descriptorsOf is the command descriptors.
type descriptorsOf struct {
	File string `arg:"" help:"Configuration of Envoy, in YAML or JSON: a bootstrap, a config dump or route dump of the admin port, route configurations, or manifests with Istio's EnvoyFilter; or a mapping, with a domain and rate_limits. - is the standard input."`

	Method        string     `default:"GET" help:"Method of the request."`
	Scheme        string     `default:"http" help:"Scheme of the request."`
	Authority     string     `default:"localhost" help:"Host of the request, with its port if it has one."`
	Path          anyBytes   `default:"/" help:"Path of the request, with its query."`
	Header        []anyBytes `placeholder:"NAME:VALUE" sep:"none" help:"Header of the request. May be given several times."`
	RemoteAddress string     `help:"Address of the client without port, as Envoy trusts it: %DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT% of its log. By default the one that Envoy finds by the header x-forwarded-for and a connection from 127.0.0.1."`
	Route         string     `help:"Name of the route that Envoy chose, for patches of an EnvoyFilter that name one."`

	fromEnvoy
	Output string `enum:"text,json" default:"text" help:"Format of the answer: text or json."`
}

// fromEnvoy are flags that say what a configuration of Envoy may leave open.
type fromEnvoy struct {
	Domain string `help:"Domain of the descriptors if no rate limit filter is in the file."`
	From   string `help:"Listener, route configuration or workloads to take if the file has several with rate limits."`
}

// options returns them as envoyconfig takes them.
func (f fromEnvoy) options() envoyconfig.Options {
	return envoyconfig.Options{Domain: f.Domain, From: f.From}
}

// What descriptors exits with, beside exitOK and exitUsage.
const exitNoDescriptor = 1

// run prints which descriptors Envoy sends for a request.
func (d descriptorsOf) run(stdout, stderr io.Writer) int {
	sent, err := d.ask()
	if err == nil {
		if d.Output == "text" {
			for _, note := range sent.Notes {
				fmt.Fprintf(stderr, "note: %s: %s\n", note.Place, note.Text)
			}
		}
		err = writeResult(stdout, d.Output, sent)
	}
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "weir: %v\n", err)
		return exitUsage
	case len(sent.Descriptors) == 0:
		return exitNoDescriptor
	default:
		return exitOK
	}
}

func (d descriptorsOf) ask() (*sentDescriptors, error) {
	request, err := d.request()
	if err != nil {
		return nil, err
	}
	config, err := readEnvoy(d.File, d.options())
	if err != nil {
		return nil, err
	}
	if request.RemoteAddress == "" {
		request.RemoteAddress = config.Client(request.Headers, "127.0.0.1")
	}
	sent := &sentDescriptors{Descriptors: []sentDescriptor{}, Notes: []sentNote{}}
	for _, result := range config.Descriptors(request) {
		sent.Descriptors = append(sent.Descriptors, newSentDescriptor(result))
	}
	for _, n := range config.Notes() {
		sent.Notes = append(sent.Notes, sentNote{plaintext.Line(n.Place), plaintext.Line(n.Text), n.LeftOut})
	}
	return sent, nil
}

// readEnvoy reads a configuration of Envoy. A dash names the standard input.
func readEnvoy(name string, o envoyconfig.Options) (*envoyconfig.Config, error) {
	file := os.Stdin
	if name == "-" {
		name = "stdin"
	} else {
		var err error
		if file, err = os.Open(name); err != nil {
			return nil, err
		}
		defer file.Close()
	}
	data, err := io.ReadAll(io.LimitReader(file, envoyconfig.MaxFileSize+1)) // more is a problem of Load
	if err != nil {
		return nil, err
	}
	config, err := envoyconfig.Load(data, name, o)
	if err != nil {
		return nil, fmt.Errorf("invalid configuration of Envoy:\n%w", err)
	}
	return config, nil
}

// request returns the request that the flags say.
func (d descriptorsOf) request() (envoyconfig.Request, error) {
	r := envoyconfig.Request{
		Method: d.Method, Scheme: d.Scheme, Authority: d.Authority, Path: string(d.Path),
		RemoteAddress: d.RemoteAddress, Route: d.Route,
	}
	if !strings.HasPrefix(r.Path, "/") {
		return r, fmt.Errorf("the path %q does not begin with /", r.Path)
	}
	for _, h := range d.Header {
		name, value, found := strings.Cut(string(h), ":")
		name = strings.ToLower(strings.TrimSpace(name))
		switch {
		case !found || name == "":
			return r, fmt.Errorf("header %q: needed is NAME:VALUE, such as x-user:alice", string(h))
		case name == "host":
			return r, errors.New("header host: give it with --authority")
		}
		r.Headers = append(r.Headers, envoyconfig.Header{Name: name, Value: strings.Trim(value, " \t")})
	}
	return r, nil
}

// sentDescriptors is what the command prints.
type sentDescriptors struct {
	Descriptors []sentDescriptor `json:"descriptors"`
	Notes       []sentNote       `json:"notes"`
}

type sentNote struct {
	Place   string `json:"place"`
	Text    string `json:"text"`
	LeftOut bool   `json:"left_out"` // a rate limit, because of it
}

type sentDescriptor struct {
	Domain       string      `json:"domain"`
	Descriptor   string      `json:"descriptor"`
	Entries      []sentEntry `json:"entries"` // none if all actions passed over what they did not find
	Place        string      `json:"place"`
	Call         int         `json:"call"`
	OnStreamDone bool        `json:"on_stream_done"`
	HitsAddend   *uint64     `json:"hits_addend,omitempty"`
	NegativeHits bool        `json:"is_negative_hits,omitempty"`
	Explain      string      `json:"explain,omitempty"`
}

// sentEntry is an entry as the log of decisions shows it.
type sentEntry struct {
	Key         string `json:"key"`
	Value       string `json:"value"`
	ValueBase64 []byte `json:"value_base64,omitempty"` // if it is no UTF-8
}

func newSentDescriptor(r envoyconfig.Result) sentDescriptor {
	s := sentDescriptor{
		Domain: r.Domain, Descriptor: explain.FormatDescriptor(r.Entries), Place: plaintext.Line(r.Place),
		Call: r.Call, OnStreamDone: r.OnStreamDone, NegativeHits: r.NegativeHits,
	}
	for _, e := range r.Entries {
		entry := sentEntry{Key: e.Key, Value: e.Value}
		if !utf8.ValidString(e.Value) {
			entry.ValueBase64 = []byte(e.Value)
		}
		s.Entries = append(s.Entries, entry)
	}
	if r.HasHitsAddend {
		s.HitsAddend = &r.HitsAddend
	}
	if len(r.Entries) > 0 { // Weir lets any other pass
		s.Explain = "weir explain " + ofRules() + text.Quote(explain.FormatDomain(s.Domain)) + " " + text.Quote(s.Descriptor)
		if r.HasHitsAddend {
			s.Explain += " --hits " + strconv.FormatUint(r.HitsAddend, 10)
		}
	}
	return s
}

// ofRules is the flag that explain needs to find the rules of the server, which are not in
// the configuration of Envoy, "" if the environment says where they are.
func ofRules() string {
	for _, name := range []string{"CONFIG_PATH", "RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY"} {
		if os.Getenv(name) != "" {
			return ""
		}
	}
	return "--config PATH "
}

// WriteText writes each descriptor and, below, what else is known of it.
func (s *sentDescriptors) WriteText(w io.Writer) error {
	if len(s.Descriptors) == 0 {
		_, err := fmt.Fprintln(w, "Envoy sends no descriptor for this request.")
		return err
	}
	var b strings.Builder
	for _, d := range s.Descriptors {
		fmt.Fprintf(&b, "%s\n  domain: %s\n  place:  %s\n", cmp.Or(plaintext.Line(d.Descriptor), "(without entries, no limit applies)"), plaintext.Line(d.Domain), d.Place)
		if d.HitsAddend != nil {
			what := "takes"
			if d.NegativeHits {
				what = "gives back"
			}
			fmt.Fprintf(&b, "  hits:   %s %d\n", what, *d.HitsAddend)
		}
		if d.OnStreamDone {
			b.WriteString("  when:   after the response, when nothing is denied anymore\n")
		}
		if d.Explain != "" {
			fmt.Fprintf(&b, "  next:   %s\n", d.Explain)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
