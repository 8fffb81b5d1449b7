package storetest

import "weir/internal/limiter"

// modeCases are requests with limits that do not simply deny.
var modeCases = []tableCase{
	{"a shadow limit never denies", []step{
		{hits: request(take("s", shadow(2), 2)), want: decisions(charged(2, 0))},
		{hits: request(take("s", shadow(2), 1)), want: decisions(over(2, 0))},
		{hits: request(peek("s", shadow(2))), want: decisions(over(2, 0))},
		{hits: request(take("a", three, 1), take("s", shadow(2), 1)), want: decisions(charged(1, 2), over(2, 0))},
		{hits: request(take("z", shadow(0), 1)), want: decisions(never(over(0, 0)))},
	}},
	{"a shadow limit counts only admitted requests", []step{
		{hits: request(take("s", shadow(9), 2), take("a", three, 3)), want: decisions(charged(2, 7), charged(3, 0))},
		{hits: request(take("s", shadow(9), 2), take("a", three, 1)), want: decisions(spared(2, 7), over(3, 0)), denied: true},
		{hits: request(take("s", shadow(9), 1)), want: decisions(charged(3, 6))},
	}},
	{"one quota over leaves the request to the others", []step{
		{hits: request(take("p", quota(2), 2), take("q", quota(5), 2)), want: decisions(charged(2, 0), charged(2, 3))},
		{hits: request(take("p", quota(2), 1), take("q", quota(5), 1)), want: decisions(over(2, 0), charged(3, 2))},
		{
			hits: request(take("p", quota(2), 1), take("q", quota(5), 2), take("a", three, 1)),
			want: decisions(over(2, 0), charged(5, 0), charged(1, 2)),
		},
		{hits: request(take("p", quota(2), 1), take("q", quota(5), 1)), want: decisions(over(2, 0), over(5, 0)), denied: true},
		{hits: request(peek("p", quota(9)), peek("q", quota(9))), want: decisions(spared(2, 7), spared(5, 4))},
	}},
	{"all quotas over deny the request", []step{
		{hits: request(take("p", quota(2), 2)), want: decisions(charged(2, 0))},
		{hits: request(take("p", quota(2), 1)), want: decisions(over(2, 0)), denied: true},
		{
			hits: request(take("a", three, 1), take("p", quota(2), 1), take("s", shadow(3), 1)), denied: true,
			want: decisions(spared(0, 3), over(2, 0), spared(0, 3)),
		},
		{
			hits: request(take("p", quota(2), 1), take("q", quota(5), 6)), denied: true,
			want: decisions(over(2, 0), never(over(0, 5))),
		},
	}},
	{"quotas beside an enforced limit that is over", []step{
		{hits: request(take("a", three, 3)), want: decisions(charged(3, 0))},
		{
			hits: request(take("p", quota(2), 1), take("a", three, 1), take("q", quota(2), 3)), denied: true,
			want: decisions(spared(0, 2), over(3, 0), never(over(0, 2))),
		},
		{hits: request(take("p", quota(2), 2)), want: decisions(charged(2, 0))},
	}},
	{"a hit's own mode holds instead of its limit's", []step{
		{hits: request(decidedIn(take("a", three, 3), limiter.Shadow)), want: decisions(charged(3, 0))},
		{hits: request(decidedIn(take("a", three, 1), limiter.Shadow)), want: decisions(over(3, 0))},
		{hits: request(decidedIn(take("a", three, 1), limiter.Quota), decidedIn(take("b", three, 1), limiter.Quota)), want: decisions(over(3, 0), charged(1, 2))},
		{hits: request(decidedIn(take("p", quota(2), 3), limiter.Shadow)), want: decisions(never(over(0, 2)))},
		{hits: request(decidedIn(take("a", three, 1), limiter.Enforced)), want: decisions(over(3, 0)), denied: true},
		{hits: request(decidedIn(take("s", shadow(2), 3), limiter.Enforced)), want: decisions(never(over(0, 2)))},
	}},
}

// decidedIn is h in a mode that is not its limit's.
func decidedIn(h limiter.Hit, m limiter.Mode) limiter.Hit {
	h.Mode = m
	return h
}
