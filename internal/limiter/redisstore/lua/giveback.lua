-- Gives back what counters were charged by requests that were then denied elsewhere, as
-- limiter.Limit.GiveBack does. The files of the algorithms stand before this one.
--
-- KEYS     counters, all different within a request but not within a batch
-- ARGV[1]  the time in microseconds since the epoch; empty: the time of Redis
-- ARGV[2]  and each further one: of the counter of that number, integers:
--            units   that were charged
--            at, used and prev of its state after the charge
--            period  of its limit, in microseconds
--            kind and four constants of its algorithm, as in decide.lua
-- Reply    texts: the time, and the state of each counter afterwards, "0 0" if nothing is stored

local algorithms = { [0] = fixed_window, sliding_window, token_bucket }
local TOKEN_BUCKET = 2

local GIVE_BACK = string.rep("(%d+) ", 10)

local now = tonumber(ARGV[1])
if not now then
  local time = call("TIME")
  now = time[1] * 1000000 + time[2]
end

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

local function give_back(key, text, stored)
  local units, charged_at, charged_used, charged_prev, period, kind, a, b, c, d = match(text, GIVE_BACK)
  units, charged_at, kind = tonumber(units), tonumber(charged_at), tonumber(kind)
  local at, used, prev = parse_state(stored)
  if not at then
    return stored
  end

  local algorithm = algorithms[kind]
  local limit = algorithm.limit(now, tonumber(a), tonumber(b), tonumber(c), tonumber(d))
  local left_at, left_used, left_prev =
    algorithm.roll(limit, charged_at, tonumber(charged_used), tonumber(charged_prev))
  at, used, prev = algorithm.roll(limit, at, used, prev)
  if kind == TOKEN_BUCKET then
    if left_used >= units then
      used, prev = algorithm.give(limit, units, used, prev)
    else
      used, prev = drain_by(tonumber(period), used, prev, left_used, left_prev)
    end
  elseif at ~= left_at then
    return stored
  elseif left_at ~= charged_at then -- the window of the charge is the previous one by now
    prev = max(prev - min(units, left_prev), 0)
  else
    used, prev = algorithm.give(limit, min(units, left_used), used, prev)
  end

  if used == 0 and prev == 0 then
    call("DEL", key)
    return "0 0"
  end
  text = state_text(at, used, prev)
  call("SET", key, text, "PX", ceil(algorithm.left(limit, at, used, prev) / 1000))
  return text
end

local reply = { format("%d", now) }
for i = 1, #KEYS do
  local stored = call("GET", KEYS[i])
  reply[i + 1] = stored and give_back(KEYS[i], ARGV[i + 1], stored) or "0 0"
end
return reply
