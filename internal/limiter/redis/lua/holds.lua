-- The holds of counters of limits by concurrency, as limiter/holds.go keeps them: a sorted set for each counter, of names
-- with the time at which the hold ends. The next request removes what has ended. The key expires with its last hold.
--
-- ARGV[4]  if the batch meets such counters: the names of holds, NAME bytes each. A hit has twice the number of its
--          name for a cost, and 1 more unless it is a peek.

local find, sub = string.find, string.sub
local NAME = 16

local held = {}    -- by counter and name: whether it is held: false, true if it was taken now, or until when
local kept = {}    -- by counter and name: until when it is held, as it is stored; false if it is not
local times = {}   -- by counter: its now, which is ahead of this caller's if there are several clocks
local foreign = {} -- by counter: whether the key holds something else, which is as good as nothing

local function name_of(cost)
  local number = math.floor(cost / 2)
  return sub(ARGV[4], (number - 1) * NAME + 1, number * NAME)
end

-- Returns the state of a counter.
local function look(i, limit)
  local key, t, period = KEYS[i], limit.t, limit.period
  held[i], kept[i], times[i] = {}, {}, t
  local last = pcall("ZRANGE", key, "-1", "-1", "WITHSCORES")
  if last.err then
    foreign[i] = find(last.err, "WRONGTYPE", 1, true) ~= nil
    last = foreign[i] and {} or call("ZRANGE", key, "-1", "-1", "WITHSCORES") -- which fails
  end
  local at = (tonumber(last[2]) or period) - period
  if not last[2] or not (at >= 0 and at + period < EXACT) then
    foreign[i] = foreign[i] or last[2] ~= nil
    return { at = 0, used = 0, prev = 0 }
  elseif at > limit.newest then
    local all = call("ZRANGE", key, "0", "-1", "WITHSCORES")
    for n = 1, #all, 2 do
      if tonumber(all[n + 1]) > t + period then
        pcall("ZADD", key, format("%d", t + period), all[n])
      end
    end
    at = t
  end
  t = max(t, at)
  times[i] = t
  local used = call("ZCOUNT", key, format("(%d", t), "+inf")
  if used < call("ZCARD", key) then -- not in vain: Redis lets a script that has written take more memory
    pcall("ZREMRANGEBYSCORE", key, "-inf", format("%d", t)) -- a replica refuses it, and can deny all the same
  end
  return { at = at, used = used, prev = 0 }
end

local function is_held(i, name)
  if held[i][name] == nil then
    local last = not foreign[i] and tonumber(call("ZSCORE", KEYS[i], name) or nil)
    held[i][name] = last and last > times[i] and last or false
    kept[i][name] = held[i][name]
  end
  return held[i][name] ~= false
end

-- Whether holds of a counter are not as they are stored.
local function is_changed(i)
  for name, last in pairs(held[i]) do
    if last ~= kept[i][name] then
      return true
    end
  end
  return false
end

-- Writes the holds of a counter whose state is of that time. Returns the error of Redis if there is one.
local function write_holds(i, limit, at)
  local key, taken, failure = KEYS[i], false, nil
  local function try(...)
    local result = not failure and pcall(...)
    failure = failure or type(result) == "table" and result.err
  end
  for name, last in pairs(held[i]) do
    if last == true and foreign[i] then
      try("DEL", key)
      foreign[i] = false
    end
    if last == true then
      try("ZADD", key, format("%d", at + limit.period), name)
      taken = true
    elseif not last and kept[i][name] then
      try("ZREM", key, name)
    end
  end
  if taken then
    try("PEXPIRE", key, ceil(limit.algorithm.left(limit, at) / 1000) + spare)
  end
  return failure
end

