-- The table algorithms has a table of pure functions for each algorithm, by its name in rules. The functions follow counting
-- in limiter/algorithm.go: roll and give_back are the same, fits reports whether wait is 0, take is add, give is add of a
-- negative cost, left is the reset time of usage, and limit takes the constants of numbers. A state is passed as its three
-- numbers at, used and prev, without the ban. The function limit returns a table, the first argument of the other functions:
-- with the constants of the limit; grid, the unit of at in microseconds; most and most_prev, the largest used and prev of a
-- state; and newest, the largest at of a state: a larger one is from the future, as after the clock stepped back. limits.lua
-- adds algorithm, and ban, the end of a ban that begins now, or false if the limit does not ban. All times are in
-- microseconds.
-- Reads tonumber, format, now, MILLION. Sets match, gmatch, fmod, ceil, min, max, algorithms, SECOND, EXACT, share, parse_state,
-- state_text, expiry, expires_alike.

local match, gmatch = string.match, string.gmatch
local fmod, ceil, min, max = math.fmod, math.ceil, math.min, math.max

local algorithms = {}

local SECOND = 1000000
local EXACT = 2 ^ 53 -- limiter.MaxExact, below which all integers are exact

-- Returns n * time / period as whole units and a rest, for times in microseconds. The rest is in parts, period of which make
-- a unit, and may be more than a unit. There are two products, because a single product would not be exact.
local function share(n, time, period)
  local micros, seconds = fmod(time, SECOND), period / SECOND
  local product = n * ((time - micros) / SECOND)
  local rest = fmod(product, seconds)
  return (product - rest) / seconds, rest * SECOND + n * micros
end

-- A state is stored as "<at> <used> <prev> <until>", the numbers of limiter.State; until is left out if it is 0, and prev if
-- both are 0. A short state, with at below SHORT, used below MILLION and no other number, is the integer at * MILLION + used,
-- which Redis stores in less memory than a text and can increment.
local SHORT = 2 ^ 33 -- exclusive bound of at in a short state

-- Returns at, used, prev and the end of the ban, or an unused state if text is not a possible state.
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

local function state_text(at, used, prev, banned) -- by format, because tostring returns 1.79e+15
  if banned then
    return format("%d %d %d %d", at, used, prev, banned)
  elseif prev > 0 then
    return format("%d %d %d", at, used, prev)
  elseif used < MILLION and at < SHORT then
    return format("%d", at * MILLION + used)
  end
  return format("%d %d", at, used)
end

-- Returns the milliseconds until a state expires. An unused state gets the shortest expiry instead of DEL, which would need
-- one more permission.
local function expiry(limit, at, used, prev, banned)
  local left = (used > 0 or prev > 0) and limit.algorithm.left(limit, at, used, prev) or 0
  return max(ceil(max(left, (banned or 0) - now) / 1000), 1)
end

-- Reports whether a state without a ban expires at the same time as the previous state. It returns false for a
-- bucket, whose expiry depends on its level.
local function expires_alike(limit, was_at, was_used, at, used)
  return at == was_at and was_used > 0 and used > 0 and not limit.drain
end
