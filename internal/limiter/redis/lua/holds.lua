-- The holds of counters that count by concurrency: a sorted set for each, of names with the time at which the hold
-- ends. The next request removes what has ended. The key expires with its last hold.
--
-- ARGV[4]  if the batch meets such counters: the names of holds, NAME bytes each. A hit has the number of its name
--          for a cost, 0 if it is a peek.

local find, sub = string.find, string.sub
local NAME = 16

local look, is_held, is_changed, write_holds, restore_holds
local name_of = function() end
local held = {} -- by counter and name: whether it is held: false, true if it was taken now, or until when

if ARGV[4] then
  local kept = {}    -- by counter and name: until when it is held, as it is stored; false if it is not
  local times = {}   -- by counter: its now, which is ahead of this caller's if there are several clocks
  local foreign = {} -- by counter: whether the key holds something else, which is as good as nothing

  name_of = function(limit, number)
    if limit.holds and number > 0 then
      return sub(ARGV[4], (number - 1) * NAME + 1, number * NAME)
    end
  end

  -- Returns the state of a counter.
  look = function(i, limit)
    local key, t, period = KEYS[i], limit.t, limit.period
    held[i], kept[i], times[i] = {}, {}, t
    local last = pcall("ZRANGE", key, "-1", "-1", "WITHSCORES")
    if last.err then
      foreign[i] = find(last.err, "WRONGTYPE", 1, true) ~= nil
      last = foreign[i] and {} or call("ZRANGE", key, "-1", "-1", "WITHSCORES") -- which fails
    end
    local at = (tonumber(last[2]) or period) - period
    if not (at >= 0 and at + period < EXACT) then
      foreign[i] = true
      return 0, 0, 0
    elseif at > limit.newest then
      local latest = t + period
      local all = call("ZRANGE", key, "0", "-1", "WITHSCORES")
      for n = 1, #all, 2 do
        if tonumber(all[n + 1]) > latest then
          pcall("ZADD", key, format("%d", latest), all[n])
        end
      end
      at = t
    end
    t = max(t, at)
    times[i] = t
    if not last[2] then
      return 0, 0, 0
    end
    local used = call("ZCOUNT", key, format("(%d", t), "+inf")
    if used < call("ZCARD", key) then -- not in vain: Redis lets a script that has written take more memory
      pcall("ZREMRANGEBYSCORE", key, "-inf", format("%d", t)) -- a replica refuses it, and can deny all the same
    end
    return at, used, 0
  end

  is_held = function(i, name)
    if held[i][name] == nil then
      local last = not foreign[i] and tonumber(call("ZSCORE", KEYS[i], name) or nil)
      held[i][name] = last and last > times[i] and last or false
      kept[i][name] = held[i][name]
    end
    return held[i][name] ~= false
  end

  -- Whether holds of a counter are not as they are stored.
  is_changed = function(i)
    for name, last in pairs(held[i]) do
      if last ~= kept[i][name] then
        return true
      end
    end
    return false
  end

  -- Writes the holds of a counter whose state is of that time. Returns what Redis says, an error if there is one.
  write_holds = function(i, limit, at)
    local key, result, taken = KEYS[i], nil, false
    for name, last in pairs(held[i]) do
      if last == true then
        if foreign[i] then
          result = pcall("DEL", key)
          foreign[i] = false
        end
        if type(result) ~= "table" then
          result = pcall("ZADD", key, format("%d", at + limit.period), name)
          taken = true
        end
      elseif not last and kept[i][name] then
        result = pcall("ZREM", key, name)
      end
      if type(result) == "table" then
        return result
      end
    end
    if taken then
      result = pcall("PEXPIRE", key, ceil(limit.algorithm.left(limit, at) / 1000) + spare)
    end
    return result
  end

  -- Writes what the holds of a counter were.
  restore_holds = function(i)
    for name, last in pairs(held[i]) do
      local before = kept[i][name]
      if before and last ~= before then
        pcall("ZADD", KEYS[i], format("%d", before), name)
      elseif last and not before then
        pcall("ZREM", KEYS[i], name)
      end
    end
  end
end

