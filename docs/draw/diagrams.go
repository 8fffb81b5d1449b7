package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"weir/internal/descriptors"
	"weir/internal/descriptors/plaintext"
)

const (
	colorBox    = "#f6f8fa"
	colorDenied = "#cf222e"
	colorGood   = "#1a7f37"
	rowHeight   = 30
)

// box draws a rectangle around lines of text.
func (c *canvas) box(x, y, width float64, stroke string, lines ...string) {
	fmt.Fprintf(c, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="4" fill="%s" stroke="%s"/>`+"\n", x, y, width, boxHeight(lines), colorBox, stroke)
	for i, line := range lines {
		c.text(x+width/2, y+18+float64(i)*15, "middle", "", line)
	}
}

func boxHeight(lines []string) float64 { return 12 + 15*float64(len(lines)) }

// arrow draws a horizontal or vertical line with a head at its end.
func (c *canvas) arrow(x1, y1, x2, y2 float64, color string) {
	c.line(x1, y1, x2, y2, color, "")
	dx, dy := 0.0, 1.0 // down
	if y1 == y2 {
		dx, dy = 1, 0
		if x2 < x1 {
			dx = -1
		}
	}
	fmt.Fprintf(c, `<polygon points="%.1f,%.1f %.1f,%.1f %.1f,%.1f" fill="%s"/>`+"\n",
		x2, y2, x2-8*dx-4*dy, y2-8*dy-4*dx, x2-8*dx+4*dy, y2-8*dy+4*dx, color)
}

// sequence is a picture of messages between actors, from top to bottom.
type sequence struct {
	*canvas
	at map[string]float64 // x coordinates of the actors
	y  float64
}

func newSequence(title string, rows int, actors ...string) *sequence {
	s := &sequence{canvas: newCanvas(title, 60+rows*rowHeight), at: map[string]float64{}, y: 56}
	for i, actor := range actors {
		x := 60 + float64(i)*(chartWidth-120)/float64(len(actors)-1)
		s.at[actor] = x
		s.line(x, 40, x, float64(50+rows*rowHeight), colorGrid, "")
		s.box(x-50, 10, 100, colorText, actor)
	}
	return s
}

// say draws a message.
func (s *sequence) say(from, to, color, text string) {
	s.y += rowHeight
	s.arrow(s.at[from], s.y-10, s.at[to], s.y-10, color)
	s.text((s.at[from]+s.at[to])/2, s.y-16, "middle", "", text)
}

// answer draws the answer to a request, in a colour for its code.
func (s *sequence) answer(from, to string, a answer) {
	color := colorGood
	if a.denied {
		color = colorDenied
	}
	s.say(from, to, color, a.String())
}

// requestPicture shows the path of one request, with the rules in config/.
func requestPicture(root string) []byte {
	weir := newService(root, "config/api.yaml")
	const first, second = "user=alice", "user=alice,path=/login"
	got := weir.ask("api", 1, false, first, second)
	s := newSequence("One request", 7, "Client", "Envoy", "Weir", "Redis", "Your service")
	s.say("Client", "Envoy", colorText, "/login, x-user: alice")
	s.say("Envoy", "Weir", colorText, first)
	s.text((s.at["Envoy"]+s.at["Weir"])/2, s.y+4, "middle", "", second)
	s.say("Weir", "Redis", colorText, fmt.Sprintf("one call, %d counters", len(got.statuses)))
	s.say("Redis", "Weir", colorText, "fits")
	s.answer("Weir", "Envoy", got)
	s.say("Envoy", "Your service", colorGood, "/login")
	s.say("Your service", "Client", colorGood, "200 (429 if a limit denies, and your service is not asked)")
	return s.finish()
}

// tokensPicture shows the peek before each answer, and the charge after it.
func tokensPicture(root string) []byte {
	weir := newService(root, "docs/examples/set-a-monthly-token-budget.yaml")
	s := newSequence("A budget of tokens: peek before, charge after", 14, "Client", "Envoy", "Weir", "Model")
	for _, tokens := range []uint64{600_000, 700_000, 0} {
		s.say("Client", "Envoy", colorText, "prompt")
		s.say("Envoy", "Weir", colorText, "peek: hits_addend 0")
		peek := weir.ask("shop", 0, false, "tokens_of=alice")
		s.answer("Weir", "Envoy", peek)
		if peek.denied {
			s.say("Envoy", "Client", colorDenied, "429")
			break
		}
		s.say("Envoy", "Model", colorGood, "prompt")
		weir.ask("shop", tokens, false, "tokens_of=alice")
		s.say("Envoy", "Weir", colorText, fmt.Sprintf("charge: hits_addend %s", plaintext.Number(tokens)))
	}
	return s.finish()
}

// inFlightPicture shows a hold that a request takes, and its release at the end of the request.
func inFlightPicture(root string) []byte {
	weir := newService(root, "examples/in-flight/rules/in-flight.yaml")
	s := newSequence("Requests in flight: take before, return after", 12, "Client", "Envoy", "Weir", "Your service")
	for _, step := range []struct {
		name string
		ends bool
	}{{"a", false}, {"b", false}, {"c", false}, {"d", false}, {"a", true}, {"d", false}} {
		got := weir.ask("in-flight", 1, step.ends, "user=alice,request_id="+step.name)
		if step.ends {
			s.say("Your service", "Client", colorText, fmt.Sprintf("request %s ends", step.name))
			s.say("Envoy", "Weir", colorText, fmt.Sprintf("return %s: is_negative_hits", step.name))
			continue
		}
		s.say("Envoy", "Weir", colorText, fmt.Sprintf("take %s", step.name))
		s.answer("Weir", "Envoy", got)
	}
	return s.finish()
}

// rulesPicture shows a descriptor for which a specific rule hides a general rule.
func rulesPicture(string) []byte {
	weir := newServiceOf("shop.yaml", "domain: shop\ndescriptors:\n"+
		"  - {key: tenant, descriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 100}}]}\n"+
		"  - {key: tenant, value: acme, rate_limit: {unit: minute, requests_per_unit: 1000}}\n")
	const general, hidden = "tenant=other,user=alice", "tenant=acme,user=alice"
	applies := func(descriptor string) bool {
		work := descriptors.MaxWork
		rule, _, _ := weir.tree.Match("shop", entriesOf(descriptor), &work)
		return rule != nil
	}
	if !applies(general) || applies(hidden) {
		panic("the specific rule does not hide the general one")
	}
	c := newCanvas("A specific rule hides what is below a general one", 250)
	c.box(380, 10, 100, colorText, "domain shop")
	for _, way := range []struct {
		x          float64
		color      string
		rule, asks string
		below      []string
	}{
		{210, colorGood, "tenant (any)", general, []string{"user (any): 100 a minute", "applies"}},
		{650, colorDenied, "tenant=acme: 1000 a minute", hidden, []string{"nothing is below:", "no limit, admitted"}},
	} {
		c.line(430, 37, 430, 60, way.color, "")
		c.line(430, 60, way.x, 60, way.color, "")
		c.arrow(way.x, 60, way.x, 90, way.color)
		c.box(way.x-100, 90, 200, way.color, way.rule)
		c.arrow(way.x, 117, way.x, 150, way.color)
		c.box(way.x-100, 150, 200, way.color, way.below...)
		c.text(way.x, 215, "middle", `font-weight="bold"`, way.asks)
	}
	c.line(310, 172, 550, 172, colorGrid, "4 3")
	c.text(430, 166, "middle", "", "Matching does not backtrack")
	return c.finish()
}

// redisFailsPicture shows which part decides while Redis fails.
func redisFailsPicture(string) []byte {
	c := newCanvas("Who decides when Redis fails", 270)
	c.box(330, 10, 200, colorText, "Does Redis answer in time?")
	c.arrow(530, 23, 640, 23, colorGood)
	c.box(640, 10, 190, colorGood, "yes: its counters decide")
	c.arrow(430, 37, 430, 70, colorDenied)
	c.box(330, 70, 200, colorText, "no: the limit's failure_mode")
	for i, mode := range []struct {
		color string
		lines []string
	}{
		{colorText, []string{"error (default)", "UNAVAILABLE:", "Envoy decides"}},
		{colorGood, []string{"allow", "passes,", "not counted"}},
		{colorDenied, []string{"deny", "429,", "retry-after: 1"}},
		{colorAdmitted, []string{"local", "each server counts", "alone, in memory"}},
	} {
		x := 120 + float64(i)*207
		c.line(430, 97, 430, 112, colorText, "")
		c.line(430, 112, x, 112, colorText, "")
		c.arrow(x, 112, x, 130, colorText)
		c.box(x-80, 130, 160, mode.color, mode.lines...)
	}
	c.arrow(120, 187, 120, 215, colorText)
	c.box(20, 215, 330, colorText, "failure_mode_deny: false (default): passes unlimited;", "true: denied")
	return c.finish()
}

// moments is a picture of lanes above a time axis.
type moments struct {
	*canvas
	end  time.Duration
	y    float64
	unit time.Duration
}

func newMoments(title string, end, unit time.Duration, lanes int) *moments {
	m := &moments{newCanvas(title, 60+lanes*rowHeight), end, 10, unit}
	bottom := float64(20 + lanes*rowHeight)
	for t := time.Duration(0); t <= end; t += unit {
		m.line(m.x(t), 10, m.x(t), bottom, colorGrid, "")
		m.text(m.x(t), bottom+18, "middle", "", spellDuration(t))
	}
	return m
}

func (m *moments) x(t time.Duration) float64 {
	return 230 + float64(chartWidth-260)*float64(t)/float64(m.end)
}

// lane begins the next lane.
func (m *moments) lane(name string) {
	m.y += rowHeight
	m.text(220, m.y-6, "end", "", name)
}

// span draws a span of time in the lane.
func (m *moments) span(from, to time.Duration, color, text string) {
	fmt.Fprintf(m, `<rect x="%.1f" y="%.1f" width="%.1f" height="18" fill="%s" fill-opacity="0.25"/>`+"\n", m.x(from), m.y-20, m.x(to)-m.x(from), color)
	m.text((m.x(from)+m.x(to))/2, m.y-7, "middle", "", text)
}

// dot draws a moment in the lane.
func (m *moments) dot(at time.Duration, color string) {
	fmt.Fprintf(m, `<circle cx="%.1f" cy="%.1f" r="5" fill="%s"/>`+"\n", m.x(at), m.y-11, color)
}

// banPicture shows requests before, during and after a ban.
func banPicture(root string) []byte {
	weir := newService(root, "docs/examples/ban-after-three-tries.yaml")
	begin, begun := weir.now, time.Duration(0)
	m := newMoments("A ban after three tries", 30*time.Minute, 5*time.Minute, 2)
	m.lane("tries")
	banned := time.Duration(0)
	for _, minute := range []int{1, 2, 3, 5, 8, 14, 19, 21, 24} {
		at := time.Duration(minute) * time.Minute
		weir.now = begin.Add(at)
		got := weir.ask("shop", 1, false, "login_of=alice")
		switch {
		case !got.denied:
			m.dot(at, colorGood)
		default:
			m.dot(at, colorDenied)
			if banned == 0 {
				begun, banned = at, got.statuses[0].UntilReset
			} else if at+got.statuses[0].UntilReset != begun+banned {
				panic("a try extends the ban")
			}
		}
	}
	m.lane("deny_for")
	m.span(begun, begun+banned, colorDenied, fmt.Sprintf("banned for %s, whatever is tried", spellDuration(banned)))
	return m.finish()
}

// drainPicture shows the drain of a server, and an Envoy that finds servers by DNS.
func drainPicture(root string) []byte {
	text := must(os.ReadFile(filepath.Join(root, "docs/settings.md")))
	setting := func(name string) time.Duration {
		row := regexp.MustCompile("(?m)^\\|`" + name + "`\\|.*?`?(\\d+s)`?\\|").FindSubmatch(text)
		if row == nil {
			panic("docs/settings.md has no default of " + name)
		}
		return must(time.ParseDuration(string(row[1])))
	}
	delay, timeout := setting("DRAIN_DELAY"), setting("DRAIN_TIMEOUT")
	const removed, refresh = 2 * time.Second, 5 * time.Second // until Kubernetes removes the server, and between Envoy's DNS queries
	m := newMoments("A drain beside Envoy's DNS", delay+timeout, refresh, 5)
	m.lane("health checks")
	m.span(0, delay+timeout, colorDenied, "fail, since SIGTERM")
	m.lane("Weir")
	m.span(0, delay, colorGood, "DRAIN_DELAY: answers everything")
	m.span(delay, delay+timeout, colorAdmitted, "DRAIN_TIMEOUT: finishes open requests")
	m.lane("DNS of the Service")
	m.span(0, removed, colorDenied, "old")
	m.span(removed, delay+timeout, colorGood, "without this server")
	m.lane("Envoy asks DNS, at the latest")
	m.dot(removed+refresh, colorAdmitted)
	m.lane("Envoy")
	m.span(0, removed+refresh, colorDenied, "may still call this server")
	m.span(removed+refresh, delay+timeout, colorGood, "calls others only")
	if removed+refresh > delay {
		panic("the delay ends before Envoy knows")
	}
	return m.finish()
}
