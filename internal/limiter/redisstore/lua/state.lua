-- How a state is stored: as "<at> <used> <prev>", with the numbers of limiter.State, or without prev where
-- that is 0; a short one, which has no prev and is below SHORT and a MILLION, as the integer
-- at * MILLION + used, which Redis keeps in less memory than a text and can increment.

local SHORT = 2 ^ 33 -- more than any at of a short state

-- The state that a text tells, and whether it is short; nothing if it tells none that is possible with any
-- amount of limit.
local function parse_state(text, limit)
  local at, used, prev, short
  local both = tonumber(text)
  if both and both >= 0 and both < EXACT and both % 1 == 0 then
    used, prev, short = both % MILLION, 0, true
    at = (both - used) / MILLION
  else
    at, used, prev = match(text, "^(%d+) (%d+) ?(%d*)$")
    if not at then
      return
    end
    at, used, prev = tonumber(at), tonumber(used), tonumber(prev) or 0
  end
  if used <= limit.most and prev <= limit.most_prev and at * limit.grid < EXACT then
    return at, used, prev, short
  end
end

local function state_text(at, used, prev) -- tostring gives 1.79e+15
  if prev == 0 and used < MILLION and at < SHORT then
    return format("%d", at * MILLION + used)
  elseif prev == 0 then
    return format("%d %d", at, used)
  end
  return format("%d %d %d", at, used, prev)
end

