-- How a state is stored: as "<at> <used> <prev>", with the numbers of limiter.State, or without prev where
-- that is 0; then, if at is below 2^33 and used below a million, as at * 1000000 + used: Redis keeps an
-- integer in less memory than a text.

local MILLION = 1000000

-- The state that a text tells, nothing if it tells none.
local function parse_state(text)
  local both = tonumber(text)
  if both and both >= 0 and both < EXACT and both % 1 == 0 then
    local used = both % MILLION
    return (both - used) / MILLION, used, 0
  end
  local at, used, prev = match(text, "^(%d+) (%d+) ?(%d*)$")
  if at then
    return tonumber(at), tonumber(used), tonumber(prev) or 0
  end
end

local function state_text(at, used, prev) -- tostring gives 1.79e+15
  if prev > 0 then
    return format("%d %d %d", at, used, prev)
  end
  if used < MILLION and at < 2 ^ 33 then
    return format("%d", at * MILLION + used)
  end
  return format("%d %d", at, used)
end

