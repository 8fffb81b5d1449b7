package redisstore

import (
	"testing"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

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
	names := limiter.AlgorithmNames()
	args := make([]any, len(names))
	for i, name := range names {
		args[i] = name
	}
	text := luaText(append([]string{"time", "prelude", "state"}, names...)...) + check
	lacking, err := connect(t, testenv.RedisServer(t)).Eval(t.Context(), text, nil, args...).StringSlice()
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range lacking {
		t.Error("lua/" + what)
	}
}
