package statsd

import (
	"fmt"
	"math"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// lineKey identifies the statsd line of a sum.
type lineKey struct {
	name string
	took time.Duration
}

// line is the state of one sum in a client.
type line struct {
	name string // with the tags of statsd
	tags string // of DogStatsD, with the separator before them
	sent uint64 // part of Total that was sent
	due  uint64 // new value of sent after the packet is sent

	round uint64 // last flush with the sum
}

// line returns the line of a sum, and adds it if it is missing.
func (c *Client) line(sum Sum) *line {
	l := c.lines[lineKey{string(sum.Name), sum.Took}]
	if l == nil {
		l = c.newLine(string(sum.Name))
		c.lines[lineKey{string(sum.Name), sum.Took}] = l
	}
	if l.round = c.round; sum.Total < l.sent { // the sum restarted between two flushes
		l.sent = 0
	}
	return l
}

func (c *Client) newLine(name string) *line {
	if !c.opts.DogStatsD {
		for _, tag := range c.opts.Tags {
			name += ".__" + tag.Name + "=" + notInNames.Replace(tag.Value)
		}
		return &line{name: name}
	}
	name, own := rename(name, c.opts.Rules)
	l, lead := &line{name: name}, "|#"
	for _, tag := range slices.Concat(c.opts.Tags, own) {
		l.tags += lead + notInTags.Replace(tag.Name+":"+tag.Value)
		lead = ","
	}
	return l
}

// Rule makes tags from parts of a name. In Name and in the values of Tags, $1 stands for the text
// of the first group of Pattern, and $0 for the text of the match. If Pattern has no such group, the
// $ and the number stay in the text.
type Rule struct {
	Pattern *regexp.Regexp
	Name    string
	Tags    []Tag
}

// rename applies the first rule that matches name. If none does, it returns name without tags.
func rename(name string, rules []Rule) (newName string, tags []Tag) {
	for _, r := range rules {
		if groups := r.Pattern.FindStringSubmatch(name); groups != nil {
			for _, tag := range r.Tags {
				tags = append(tags, Tag{tag.Name, fill(tag.Value, groups)})
			}
			return fill(r.Name, groups), tags
		}
	}
	return name, nil
}

var placeholder = regexp.MustCompile(`\$\d+`)

func fill(text string, groups []string) string {
	return placeholder.ReplaceAllStringFunc(text, func(p string) string {
		if i, err := strconv.Atoi(p[1:]); err == nil && i < len(groups) {
			return groups[i]
		}
		return p
	})
}

// Replacers of characters with a meaning in the protocol.
var (
	notInNames = strings.NewReplacer(".", "_", ":", "_", "|", "_")
	notInTags  = strings.NewReplacer(",", "_", "|", "_")
)

// append appends a line for an increase by the parameter more. If took is not 0, each event took that time.
func (l *line) append(dst []byte, more uint64, took time.Duration) []byte {
	dst = append(append(dst, l.name...), ':')
	if took == 0 {
		dst = append(strconv.AppendUint(dst, more, 10), "|c"...)
	} else {
		dst = strconv.AppendFloat(dst, took.Seconds()*1000, 'f', -1, 64)
		dst = append(dst, "|ms"...)
		if more > 1 {
			dst = strconv.AppendFloat(append(dst, "|@"...), rate(more), 'g', -1, 64)
		}
	}
	return append(append(dst, l.tags...), '\n')
}

// rate returns the sample rate for n equal values. Even servers that truncate 1/rate get n from it.
func rate(n uint64) float64 {
	r := 1 / float64(n)
	for 1/r < float64(n) {
		r = math.Nextafter(r, 0)
	}
	return r
}

// packet collects lines for one write.
type packet struct {
	conn  net.Conn
	most  int // maximum size of a write in bytes
	bytes []byte
	lines []*line // whose text is in bytes
}

// add adds a line with the growth of a sum. If the line does not fit, add sends the packet first.
func (p *packet) add(l *line, sum Sum) error {
	if sum.Total == l.sent {
		return nil
	}
	text := l.append(nil, sum.Total-l.sent, sum.Took)
	if len(p.bytes)+len(text) > p.most {
		if err := p.send(); err != nil {
			return err
		}
	}
	l.due, p.lines, p.bytes = sum.Total, append(p.lines, l), append(p.bytes, text...)
	return nil
}

// send writes the packet and empties it. If the write fails, the next flush sends the lines again. If a
// TCP connection broke, a server may get lines twice.
func (p *packet) send() error {
	if len(p.bytes) == 0 {
		return nil
	}
	if _, err := p.conn.Write(p.bytes); err != nil {
		return fmt.Errorf("sending: %w", err)
	}
	for _, l := range p.lines {
		l.sent = l.due
	}
	p.bytes, p.lines = p.bytes[:0], p.lines[:0]
	return nil
}
