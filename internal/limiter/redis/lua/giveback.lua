-- Gives back what counters were charged by requests that were then denied elsewhere, as
-- limiter.Limit.GiveBack does. The other files stand before this one.
--
-- KEYS     counters, all different within a request but not within a batch
-- ARGV[2]  after the limits, see limits.lua, five integers for each counter:
--            cost    that was charged; of a hold its number, see holds.lua
--            at, used and prev of its state after the charge
--            limit   its number
-- Reply    integers: the time, and of each counter ADMITTED, at, used, prev: its state afterwards, all 0 if nothing
--          is stored. They are as in the reply of decide.lua, with the ban

-- Gives back a cost, and returns the state afterwards.
local function give_back(key, stored, cost, charged_at, charged_used, charged_prev, limit)
  local at, used, prev, _, banned = parse_state(stored, limit)
  if not at then
    return 0, 0, 0
  end
  if max(at, charged_at) > limit.newest then -- the clock stepped back, and nobody knows how long ago it was
    return at, used, prev, banned
  end

  local algorithm = limit.algorithm
  local left_at, left_used, left_prev =
    algorithm.roll(limit, charged_at, charged_used, charged_prev)
  local now_at, now_used, now_prev = algorithm.roll(limit, at, used, prev)
  now_used, now_prev =
    algorithm.give_back(limit, cost, now_at, now_used, now_prev, left_at, left_used, left_prev, charged_at)
  if not now_used then
    return at, used, prev, banned
  end
  at, used, prev = now_at, now_used, now_prev
  banned = limit.ban and banned and banned > now and min(banned, limit.longest_ban) or nil

  if used == 0 and prev == 0 and not banned then
    call("SET", key, "0", "PX", 1) -- as decide.lua stores an unused state
    return 0, 0, 0
  end
  local left = used + prev > 0 and algorithm.left(limit, at, used, prev) or 0
  left = banned and max(left, banned - now) or left
  call("SET", key, state_text(at, used, prev, banned), "PX", ceil(left / 1000) + spare)
  return at, used, prev, banned
end

-- Gives back a hold, unless it is another one of that name. Returns the state afterwards.
local function give_back_hold(i, number, charged_at, limit)
  local name = name_of(limit, number)
  look(i, limit)
  if is_held(i, name) and held[i][name] == charged_at + limit.period then
    call("ZREM", KEYS[i], name)
  end
  return look(i, limit)
end

local reply, i = { now }, 0
for cost, charged_at, charged_used, charged_prev, n in gmatch(rest, "(%d+) (%d+) (%d+) (%d+) (%d+) ") do
  i = i + 1
  local at, used, prev, banned, limit = 0, 0, 0, nil, limits[tonumber(n)]
  local stored = not limit.holds and call("MGET", KEYS[i])[1] -- no GET: it is a permission more
  if limit.holds then
    at, used, prev = give_back_hold(i, tonumber(cost), tonumber(charged_at), limit)
  elseif stored then
    at, used, prev, banned = give_back(KEYS[i], stored, tonumber(cost), tonumber(charged_at), tonumber(charged_used),
      tonumber(charged_prev), limit)
  end
  if banned then
    reply[#reply + 1], reply[#reply + 2] = BANNED, banned
  end
  local words = #reply
  reply[words + 1], reply[words + 2], reply[words + 3], reply[words + 4] = ADMITTED, at, used, prev
end
return reply
