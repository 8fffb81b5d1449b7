-- Gives back what counters were charged by requests that were then denied elsewhere, as
-- limiter.Limit.GiveBack does. The other files stand before this one.
--
-- KEYS     counters, all different within a request but not within a batch
-- ARGV     see limits.lua; each from the third on is of the counter of that number, five integers:
--            units   that were charged
--            at, used and prev of its state after the charge
--            limit   its number
-- Reply    integers: the time, and of each counter -1, at, used, prev: its state afterwards, all 0 if nothing is
--          stored, as decide.lua tells it

-- The state used, prev without the level of left, of which there is no whole unit too much in it.
local function drain_by(period, used, prev, left_used, left_prev)
  used, prev = used - left_used, prev - left_prev
  if prev < 0 then
    used, prev = used - 1, prev + period
  end
  if used < 0 then
    return 0, 0
  end
  return used, prev
end

-- Gives back what text tells, and returns the state afterwards.
local function give_back(key, text, stored)
  local units, charged_at, charged_used, charged_prev, n = match(text, "(%d+) (%d+) (%d+) (%d+) (%d+) ")
  units, charged_at = tonumber(units), tonumber(charged_at)
  local limit = limits[tonumber(n)]
  local at, used, prev = parse_state(stored, limit)
  if not at then
    return 0, 0, 0
  end
  if max(at, charged_at) > limit.newest then -- the clock stepped back, and nobody knows how long ago it was
    return at, used, prev
  end
  local stored_at, stored_used, stored_prev = at, used, prev

  local algorithm = limit.algorithm
  local left_at, left_used, left_prev =
    algorithm.roll(limit, charged_at, tonumber(charged_used), tonumber(charged_prev))
  at, used, prev = algorithm.roll(limit, at, used, prev)
  if algorithm == token_bucket then
    if left_used >= units then
      used, prev = algorithm.give(limit, units, used, prev)
    else
      used, prev = drain_by(limit.period, used, prev, left_used, left_prev)
    end
  elseif at ~= left_at then
    return stored_at, stored_used, stored_prev
  elseif left_at ~= charged_at then -- the window of the charge is the previous one by now
    prev = max(prev - min(units, left_prev), 0)
  else
    used, prev = algorithm.give(limit, min(units, left_used), used, prev)
  end

  if used == 0 and prev == 0 then
    call("SET", key, "0", "PX", 1) -- as decide.lua stores an unused state
    return 0, 0, 0
  end
  call("SET", key, state_text(at, used, prev), "PX", ceil(algorithm.left(limit, at, used, prev) / 1000) + spare)
  return at, used, prev
end

local reply = { now }
for i = 1, #KEYS do
  local stored, at, used, prev = call("MGET", KEYS[i])[1], 0, 0, 0 -- no GET: it is a permission more
  if stored then
    at, used, prev = give_back(KEYS[i], ARGV[i + 2], stored)
  end
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = ADMITTED, at, used, prev
end
return reply
