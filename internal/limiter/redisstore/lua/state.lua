-- How the state of a counter is written: "<at> <used> <prev>", with the numbers of limiter.State, or without
-- prev where that is 0; then, if at is below 2^33 and used below a million, as at * 1000000 + used: Redis
-- keeps an integer in less memory than a text. So it is stored, until it is as good as unused. Anything else
-- that a key holds counts as unused, and is replaced by the first charge.

local MILLION = 1000000

-- Reads what a key holds, if anything. limit tells which states are possible, with any amount.
local function parse(text, limit)
  if not text then
    return 0, 0, 0
  end
  local a, u, p
  local both = tonumber(text)
  if both and both >= 0 and both < EXACT and both % 1 == 0 then
    u, p = both % MILLION, 0
    a = (both - u) / MILLION
  else
    a, u, p = match(text, "^(%d+) (%d+) ?(%d*)$")
    if not a then
      return 0, 0, 0
    end
    a, u, p = tonumber(a), tonumber(u), tonumber(p) or 0
  end
  if u <= limit.most and p <= limit.most_prev and a * limit.grid < EXACT then
    return a, u, p
  end
  return 0, 0, 0
end

local function written(a, u, p) -- tostring gives 1.79e+15
  if p > 0 then
    return format("%d %d %d", a, u, p)
  end
  if u < MILLION and a < 2 ^ 33 then
    return format("%d", a * MILLION + u)
  end
  return format("%d %d", a, u)
end

