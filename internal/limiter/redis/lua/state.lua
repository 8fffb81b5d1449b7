-- What the files after this one use: numbers, and states.
--
-- An algorithm is the pure functions of its Go file, as the member of algorithms that has its word in rules. They have
-- the names of counting in limiter/algorithm.go, and do the same. A state is passed as its three numbers, without its
-- ban, which denies whatever the algorithm says. The function limit prepares, once for all counters of a limit,
-- what the others take first: the constants of the limit, the time t, in microseconds as all times are, and
--   grid       what at counts, in microseconds
--   most       the largest used of a state
--   most_prev  the largest prev of a state
--   newest     the largest at of a state that is not from after now, see time.lua
-- limits.lua adds
--   algorithm     the functions
--   ban           when a ban ends that begins now, nothing if the limit has no bans
--   longest_ban   the latest end of a ban that is in force

local match, gmatch = string.match, string.gmatch
local fmod, ceil, min, max = math.fmod, math.ceil, math.min, math.max

local algorithms = {}

local SECOND = 1000000
local EXACT = 2 ^ 53 -- limiter.MaxExact, below which all integers are exact

-- n * time / seconds, for a time in microseconds: a number of units, and a rest that may hold more of them,
-- in units divided by the microseconds of the seconds. It takes two products, because one would not be exact.
local function share(n, time, seconds)
  local micros = fmod(time, SECOND)
  local product = n * ((time - micros) / SECOND)
  local rest = fmod(product, seconds)
  return (product - rest) / seconds, rest * SECOND + n * micros
end

-- A state is stored as "<at> <used> <prev> <until>", with the numbers of limiter.State, without those at the end that are
-- 0. A short one, which has no prev and is below SHORT and a MILLION, is the integer at * MILLION + used, which Redis
-- keeps in less memory than a text and can increment.
local SHORT = 2 ^ 33 -- more than any at of a short state

-- Returns the state in a text: at, used, prev and banned; an unused one if no amount of limit makes such a state possible.
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

-- For how many milliseconds a state is stored. An unused state is stored for the least time that there is, rather
-- than deleted: DEL is a permission more.
local function expiry(limit, at, used, prev, banned)
  local is_used = used > 0 or prev > 0
  if not is_used and not banned then
    return 1
  end
  local left = is_used and limit.algorithm.left(limit, at, used, prev) or 0
  return max(ceil(max(left, (banned or 0) - now) / 1000), 1) + spare
end

-- Whether a state without a ban expires when the one before it did. A bucket lasts the longer the fuller it is.
local function expires_alike(limit, was_at, was_used, at, used)
  return at == was_at and was_used > 0 and used > 0 and not limit.drain
end

