-- How a state is stored: as "<at> <used> <prev>", with the numbers of limiter.State, or without prev where
-- that is 0; a short one, which has no prev and is below SHORT and a MILLION, as the integer
-- at * MILLION + used, which Redis keeps in less memory than a text and can increment. One with a ban has four
-- numbers: "<at> <used> <prev> <until>".

local SHORT = 2 ^ 33 -- more than any at of a short state

-- Returns the state in a text, whether it is short, and until when its ban is, nil without one. Returns nothing if the
-- text is no state that is possible with any amount of limit.
local function parse_state(text, limit)
  local at, used, prev, short, banned
  local both = tonumber(text)
  if both and both >= 0 and both < EXACT and both % 1 == 0 then
    used, prev, short = both % MILLION, 0, true
    at = (both - used) / MILLION
  else
    at, used, prev = match(text, "^(%d+) (%d+) ?(%d*)$")
    if not at then
      at, used, prev, banned = match(text, "^(%d+) (%d+) (%d+) (%d+)$")
      banned = tonumber(banned)
      if not banned or banned >= EXACT then
        return
      end
    end
    at, used, prev = tonumber(at), tonumber(used), tonumber(prev) or 0
  end
  if used <= limit.most and prev <= limit.most_prev and at * limit.grid < EXACT then
    return at, used, prev, short, banned
  end
end

local function state_text(at, used, prev, banned) -- tostring gives 1.79e+15
  if banned then
    return format("%d %d %d %d", at, used, prev, banned)
  elseif prev == 0 and used < MILLION and at < SHORT then
    return format("%d", at * MILLION + used)
  elseif prev == 0 then
    return format("%d %d", at, used)
  end
  return format("%d %d %d", at, used, prev)
end

