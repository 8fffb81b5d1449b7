package redis

import (
	"slices"
	"testing"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// Go and the scripts have the same words.
func TestWordsOfReplies(t *testing.T) {
	const words = "return {OVER, SINGLE, REFUSED, ALREADY, NO_WINDOW}"
	got, err := connect(t, testenv.RedisServer(t)).Eval(t.Context(), luaText("time")+words, nil).Int64Slice()
	want := []int64{wordOver, waySingle, wordRefused, wordAlready, wayNoWindow}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("time.lua has %v, error %v, want %v", got, err, want)
	}
}

// The file of each algorithm registers it, with all functions that others have.
func TestEveryAlgorithmHasItsFunctions(t *testing.T) {
	const check = `
local functions, lacking = {}, {}
for _, algorithm in pairs(algorithms) do
  for name in pairs(algorithm) do
    functions[name] = true
  end
end
for _, word in ipairs(ARGV) do
  if not algorithms[word] then
    lacking[#lacking + 1] = word .. ".lua does not define algorithms." .. word
  end
  for name in pairs(algorithms[word] and functions or {}) do
    if type(algorithms[word][name]) ~= "function" then
      lacking[#lacking + 1] = word .. ".lua lacks the function " .. name
    end
  end
end
return lacking`
	names := append(limiter.AlgorithmNames(), calendarWindow)
	args := make([]any, len(names))
	for i, name := range names {
		args[i] = name
	}
	text := luaText(append([]string{"time", "state"}, names...)...) + check
	lacking, err := connect(t, testenv.RedisServer(t)).Eval(t.Context(), text, nil, args...).StringSlice()
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range lacking {
		t.Error("lua/" + what)
	}
}
