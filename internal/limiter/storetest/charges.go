package storetest

import "time"

// chargeCases are hits that are written whatever becomes of their request.
var chargeCases = []tableCase{
	{"always is written although it does not fit", []step{
		{hits: request(always("a", three, 2)), want: decisions(charged(2, 1))},
		{hits: request(always("a", three, 2)), want: decisions(overCharged(4, 0)), denied: true},
		{hits: request(always("a", three, 7)), want: decisions(never(overCharged(11, 0))), denied: true},
		{hits: request(take("a", three, 1)), want: decisions(over(11, 0)), denied: true},
		{hits: request(always("a", three, 0)), want: decisions(over(11, 0)), denied: true},
		{at: minuteLeft, hits: request(always("a", three, 1)), want: decisions(left(time.Minute, charged(1, 2)))},
	}},
	{"a peek of what is charged always passes until more than the limit is used", []step{
		{hits: request(always("a", three, 3)), want: decisions(charged(3, 0))},
		{hits: request(always("a", three, 0)), want: decisions(spared(3, 0))},
		{hits: request(peek("a", three)), want: decisions(over(3, 0)), denied: true},
		{hits: request(always("a", three, 0), take("b", three, 1)), want: decisions(spared(3, 0), charged(1, 2))},
		{hits: request(always("a", three, 0), always("a", three, 1)), want: decisions(spared(4, 0), overCharged(4, 0)), denied: true},
		{hits: request(always("a", three, 0)), want: decisions(over(4, 0)), denied: true},
		{hits: request(always("none", enforced(0), 0)), want: decisions(spared(0, 0))},
		{at: minuteLeft, hits: request(always("a", three, 0)), want: decisions(left(time.Minute, spared(0, 3)))},
	}},
	{"such a peek of a sliding window and of a bucket", []step{
		{hits: request(always("s", sliding(3), 3), always("b", bucket(1, 3), 3)), want: decisions(
			told(minuteLeft+time.Minute, 0, charged(3, 0)), told(3*time.Minute, 0, charged(3, 0)))},
		{hits: request(always("s", sliding(3), 0), always("b", bucket(1, 3), 0)), want: decisions(
			told(minuteLeft+time.Minute, 0, spared(3, 0)), told(3*time.Minute, 0, spared(3, 0)))},
		{hits: request(always("s", sliding(3), 1)), want: decisions(
			told(minuteLeft+time.Minute, minuteLeft+30*time.Second, overCharged(4, 0))), denied: true},
		{hits: request(always("b", bucket(1, 3), 1)), want: decisions(told(4*time.Minute, 2*time.Minute, overCharged(4, 0))), denied: true},
		{hits: request(always("s", sliding(3), 0)), want: decisions(
			told(minuteLeft+time.Minute, minuteLeft+15*time.Second, over(4, 0))), denied: true},
		{hits: request(always("b", bucket(1, 3), 0)), want: decisions(told(4*time.Minute, time.Minute, over(4, 0))), denied: true},
	}},
	{"always is written although another hit denies", []step{
		{hits: request(take("a", three, 3)), want: decisions(charged(3, 0))},
		{
			hits: request(always("b", three, 2), take("a", three, 1), take("c", three, 1)), denied: true,
			want: decisions(charged(2, 1), over(3, 0), spared(0, 3)),
		},
		{
			hits: request(take("a", three, 1), always("b", three, 2)), denied: true,
			want: decisions(over(3, 0), overCharged(4, 0)),
		},
		{hits: request(take("c", three, 3)), want: decisions(charged(3, 0))},
	}},
	{"always over its limit denies the others", []step{
		{
			hits: request(take("b", three, 1), always("a", three, 4)), denied: true,
			want: decisions(spared(0, 3), never(overCharged(4, 0))),
		},
		{hits: request(take("b", three, 3)), want: decisions(charged(3, 0))},
	}},
	{"always counts for the later hits of its request", []step{
		{hits: request(always("a", three, 3), take("a", three, 1)), denied: true, want: decisions(charged(3, 0), never(over(3, 0)))},
		{hits: request(take("b", three, 3), always("b", three, 1)), denied: true, want: decisions(spared(1, 2), never(overCharged(1, 2)))},
	}},
	{"always on shadow and quota limits", []step{
		{hits: request(always("s", shadow(3), 4)), want: decisions(never(overCharged(4, 0)))},
		{hits: request(always("p", quota(3), 4), take("q", quota(3), 1)), want: decisions(never(overCharged(4, 0)), charged(1, 2))},
		{hits: request(always("p", quota(3), 1), take("q", quota(3), 3)), denied: true, want: decisions(overCharged(5, 0), over(1, 2))},
	}},
	{"a refund gives back, not below 0", []step{
		{hits: request(take("a", three, 3)), want: decisions(charged(3, 0))},
		{hits: request(refund("a", three, 2)), want: decisions(charged(1, 2))},
		{hits: request(refund("a", three, 2)), want: decisions(charged(0, 3))},
		{hits: request(refund("a", three, 1)), want: decisions(charged(0, 3))},
		{hits: request(take("a", three, 3)), want: decisions(charged(3, 0))},
		{hits: request(refund("b", three, 5)), want: decisions(charged(0, 3))},
		{hits: request(refund("z", enforced(0), 5)), want: decisions(charged(0, 0))},
	}},
	{"a refund is written although the request is denied", []step{
		{hits: request(take("a", three, 3), take("b", three, 3)), want: decisions(charged(3, 0), charged(3, 0))},
		{hits: request(refund("a", three, 1), take("b", three, 1)), want: decisions(charged(2, 1), over(3, 0)), denied: true},
		{hits: request(take("b", three, 1), refund("b", three, 2)), want: decisions(atOnce(over(1, 2)), charged(1, 2)), denied: true},
		{hits: request(take("a", three, 1), take("b", three, 2)), want: decisions(charged(3, 0), charged(3, 0))},
	}},
	{"a refund lets a later hit of its request pass", []step{
		{hits: request(take("a", three, 3)), want: decisions(charged(3, 0))},
		{hits: request(refund("a", three, 1), take("a", three, 1)), want: decisions(charged(3, 0), charged(3, 0))},
		{hits: request(take("a", three, 1), refund("a", three, 1)), want: decisions(atOnce(over(2, 1)), charged(2, 1)), denied: true},
	}},
	{"a refund reaches only the current window", []step{
		{hits: request(take("a", three, 3)), want: decisions(charged(3, 0))},
		{at: minuteLeft, hits: request(refund("a", three, 2)), want: decisions(left(time.Minute, charged(0, 3)))},
		{at: minuteLeft, hits: request(take("a", three, 3)), want: decisions(left(time.Minute, charged(3, 0)))},
		{at: minuteLeft, hits: request(take("a", three, 1)), want: decisions(left(time.Minute, over(3, 0))), denied: true},
	}},
	{"a refund and an always of one denied request", []step{
		{hits: request(take("a", three, 3), take("b", three, 2)), want: decisions(charged(3, 0), charged(2, 1))},
		{
			hits: request(take("a", three, 1), refund("b", three, 1), always("b", three, 4), take("b", three, 1)), denied: true,
			want: decisions(over(3, 0), charged(5, 0), never(overCharged(5, 0)), never(over(5, 0))),
		},
	}},
}
