-- What the files after this one use. All are one script, in the order that script.go gives.
--
-- An algorithm is the pure functions of its Go file, as the member of algorithms that has its word in rules.
-- fixed_window.lua says what each function returns. A state is passed as its three numbers, without its ban:
-- decide.lua alone begins bans, which deny whatever the algorithm says. The function limit prepares, once for all
-- counters of a limit, what the others take first: the constants of the limit, the time t, in microseconds as all
-- times are, and
--   grid       what at counts, in microseconds
--   most       the largest used of a state
--   most_prev  the largest prev of a state
--   oldest     the smallest at of a used state that is as of now already, and need not be rolled
--   newest     the largest at of a state that is not from after now, see time.lua
--   lasting    whether a used state expires when it did before, as long as its at is the same
--   holds      whether its counters are sets of holds, see holds.lua
-- limits.lua adds
--   algorithm     the functions
--   ban           when a ban ends that begins now, nothing if the limit has no bans
--   longest_ban   the latest end of a ban that is in force

local match, gmatch = string.match, string.gmatch
local fmod, ceil, min, max = math.fmod, math.ceil, math.min, math.max

local algorithms = {}

local SECOND = 1000000
local EXACT = 2 ^ 53 -- limiter.MaxExact

-- n * time / seconds, for a time in microseconds: a number of units, and a rest that may hold more of them,
-- in units divided by the microseconds of the seconds. It takes two products, because one would not be exact.
local function share(n, time, seconds)
  local micros = fmod(time, SECOND)
  local product = n * ((time - micros) / SECOND)
  local rest = fmod(product, seconds)
  return (product - rest) / seconds, rest * SECOND + n * micros
end

