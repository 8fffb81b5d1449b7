package statsd

import (
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// line is what a client sends of one sum.
type line struct {
	name string // with tags that are part of it
	tags string // of DogStatsD, with what leads them in
	sent uint64 // how much of Total the server has

	round uint64 // of the last flush that had the sum
}

// line returns the line of a sum.
func (c *Client) line(sum Sum) *line {
	key := sum.Name
	if sum.Took > 0 {
		key = strconv.AppendInt(append(slices.Clone(key), '|'), int64(sum.Took), 10)
	}
	l := c.lines[string(key)]
	if l == nil {
		l = c.newLine(string(sum.Name))
		c.lines[string(key)] = l
	}
	if l.round = c.round; sum.Total < l.sent { // it began anew between two flushes
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
	tags := c.opts.Tags
	if c.opts.Rename != nil {
		var own []Tag
		name, own = c.opts.Rename(name)
		tags = slices.Concat(tags, own)
	}
	l := &line{name: name}
	for i, tag := range tags {
		if i == 0 {
			l.tags = "|#"
		} else {
			l.tags += ","
		}
		l.tags += notInTags.Replace(tag.Name + ":" + tag.Value)
	}
	return l
}

// What would be read as something else.
var (
	notInNames = strings.NewReplacer(".", "_", ":", "_", "|", "_")
	notInTags  = strings.NewReplacer(",", "_", "|", "_")
)

// append writes the line for so many more things that took so long each, or a
// count of them if took is 0.
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

// rate is the sample rate that makes a server count one value n times, also if
// it cuts off the fraction of 1/rate.
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
	most  int // bytes
	bytes []byte
	lines []growth // in bytes
}

// growth is what a line says of a total.
type growth struct {
	*line
	total uint64
}

// mostBytes is what one write holds. Over UDP it is what passes without being
// cut to pieces almost everywhere.
func mostBytes(network string) int {
	if network == "udp" {
		return 1432
	}
	return 64 << 10
}

// add collects what a sum grew by, and sends what no longer fits beside it.
func (p *packet) add(l *line, sum Sum) error {
	if sum.Total == l.sent {
		return nil
	}
	before := len(p.bytes)
	p.bytes = l.append(p.bytes, sum.Total-l.sent, sum.Took)
	if before > 0 && len(p.bytes) > p.most {
		rest := slices.Clone(p.bytes[before:])
		p.bytes = p.bytes[:before]
		if err := p.send(); err != nil {
			return err
		}
		p.bytes = append(p.bytes, rest...)
	}
	p.lines = append(p.lines, growth{l, sum.Total})
	return nil
}

// send writes the packet and begins a new one. Lines that could not be written
// stay due; of a TCP connection that broke, some may be told twice.
func (p *packet) send() error {
	if len(p.bytes) == 0 {
		return nil
	}
	if _, err := p.conn.Write(p.bytes); err != nil {
		return fmt.Errorf("sending: %w", err)
	}
	for _, g := range p.lines {
		g.sent = g.total
	}
	p.bytes, p.lines = p.bytes[:0], p.lines[:0]
	return nil
}
