-- An algorithm is the pure functions of its Go file, as the member of algorithms that has its word in rules. They
-- follow counting in limiter/algorithm.go: roll and give_back do the same there, fits says whether wait is 0, take and
-- give are add of a cost and of one below 0, left is the time that usage returns, and limit takes the constants that
-- numbers returns. A state is passed as its three numbers, without its ban.
--
-- The function limit prepares, once for all counters of a limit, what the others take first: the constants of the
-- limit; grid, what at counts, in microseconds as all times are; most and most_prev, the largest used and prev of a state;
-- newest, the largest at of one that is not from after now, as a clock leaves it that then stepped back. limits.lua adds
-- its algorithm, and ban, when one ends that begins now, false if it has none.

local match, gmatch = string.match, string.gmatch
local fmod, ceil, min, max = math.fmod, math.ceil, math.min, math.max

local algorithms = {}

local SECOND = 1000000
local EXACT = 2 ^ 53 -- limiter.MaxExact, below which all integers are exact

-- n * time / period, of times in microseconds: a number of units, and a rest that may hold more of them, in units
-- divided by the period. It takes two products, because one would not be exact.
local function share(n, time, period)
  local micros, seconds = fmod(time, SECOND), period / SECOND
  local product = n * ((time - micros) / SECOND)
  local rest = fmod(product, seconds)
  return (product - rest) / seconds, rest * SECOND + n * micros
end

-- A state is stored as "<at> <used> <prev> <until>", with the numbers of limiter.State, without those at the end that are
-- 0. A short one, which has no prev and is below SHORT and a MILLION, is the integer at * MILLION + used, which Redis
-- keeps in less memory than a text and can increment.
local SHORT = 2 ^ 33 -- more than any at of a short state

-- Returns at, used, prev and the end of the ban; an unused state if no amount of limit makes such a one possible.
local function parse_state(text, limit)
  local at, used, prev, banned = nil, nil, 0, nil
  local both = tonumber(text)
  if both and both >= 0 and both < EXACT and both % 1 == 0 then
    used = both % MILLION
    at = (both - used) / MILLION
  elseif text then
    at, used, prev, banned = match(text, "^(%d+) (%d+) ?(%d*) ?(%d*)$")
    at, used, prev, banned = tonumber(at), tonumber(used), tonumber(prev) or 0, tonumber(banned)
  end
  if at and used <= limit.most and prev <= limit.most_prev and at * limit.grid < EXACT and (banned or 0) < EXACT then
    return at, used, prev, banned
  end
  return 0, 0, 0
end

local function state_text(at, used, prev, banned) -- tostring gives 1.79e+15
  if banned then
    return format("%d %d %d %d", at, used, prev, banned)
  elseif prev > 0 then
    return format("%d %d %d", at, used, prev)
  elseif used < MILLION and at < SHORT then
    return format("%d", at * MILLION + used)
  end
  return format("%d %d", at, used)
end

-- For how many milliseconds a state is stored, an unused one for the least that there is: DEL is a permission more.
local function expiry(limit, at, used, prev, banned)
  local left = (used > 0 or prev > 0) and limit.algorithm.left(limit, at, used, prev) or 0
  return max(ceil(max(left, (banned or 0) - now) / 1000), 1)
end

-- Whether a state without a ban expires when the one before it did. A bucket lasts the longer the fuller it is.
local function expires_alike(limit, was_at, was_used, at, used)
  return at == was_at and was_used > 0 and used > 0 and not limit.drain
end
