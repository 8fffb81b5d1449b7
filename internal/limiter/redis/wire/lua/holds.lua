-- The holds of concurrency limits, as limiter/concurrency.go keeps them: for each counter, a sorted set of the names of its
-- holds by the time at which they expire. Requests remove expired holds. The key expires with its last hold.
-- ARGV[4]  the names of holds, NAME bytes each. A hit's cost is twice its name's number, plus 1 unless the hit is a peek.
-- Reads KEYS, ARGV, call, pcall, tonumber, format, now, min, ceil, EXACT. Sets failure, try, ask, held, name_of, look, is_held,
-- write_holds.

local failure = nil -- the error of the first refused write of holds, logs and states

-- Calls Redis, unless it has refused an earlier write.
local function try(...)
  local result = not failure and pcall(...)
  failure = failure or type(result) == "table" and result.err or nil
end

-- Calls Redis. If the key has a value of another type, removes the value and returns nothing.
local function ask(...)
  local _, key = ...
  local result = pcall(...)
  local problem = type(result) == "table" and result.err
  if problem and problem:find("WRONGTYPE", 1, true) then
    pcall("DEL", key)
    return
  end
  return problem and call(...) or result -- call fails with the same error
end

local NAME = 16
local PART = 1000 -- maximum number of a counter's holds that a request removes or shortens; this takes Redis 1 to 3 ms

local held = {} -- by counter and name: the expiry of the hold, true if it was just taken, or false if there is none
local kept = {} -- by counter and name: the stored expiry of the hold, or false

local function name_of(cost)
  local number = math.floor(cost / 2)
  return string.sub(ARGV[4], (number - 1) * NAME + 1, number * NAME)
end

-- Returns the state of a counter. Removes a value that is not a set of holds. Shortens holds to last at most the period.
local function look(i, limit)
  local key, longest = KEYS[i], now + limit.period
  held[i], kept[i] = {}, {}
  local last = ask("ZRANGE", key, "-1", "-1", "WITHSCORES") or {}
  local ends = tonumber(last[2] or 0) or EXACT
  if not last[2] then
    return 0, 0, 0
  elseif not (ends >= limit.period and ends < EXACT) then
    pcall("DEL", key)
    return 0, 0, 0
  elseif ends > longest then
    local latest = call("ZRANGE", key, -PART, "-1", "WITHSCORES")
    for n = 1, #latest, 2 do
      if tonumber(latest[n + 1]) > longest then
        pcall("ZADD", key, format("%d", longest), latest[n])
      end
    end
    ends = longest
  end
  local used = call("ZCOUNT", key, format("(%d", now), "+inf")
  local ended = call("ZCARD", key) - used
  if ended > 0 then -- otherwise write nothing, because a script that has written may exceed maxmemory
    -- A replica refuses this, but can still deny.
    pcall("ZREM", key, unpack(call("ZRANGE", key, "0", min(ended, PART) - 1)))
  end
  return ends - limit.period, used, 0
end

local function is_held(i, name)
  if held[i][name] == nil then
    local last = tonumber(call("ZSCORE", KEYS[i], name) or nil)
    kept[i][name] = last and last > now and last or false
    held[i][name] = kept[i][name]
  end
  return held[i][name] ~= false
end

-- Writes the holds of a counter. Returns whether there was anything to write.
local function write_holds(i, limit)
  local key, news = KEYS[i], false
  for name, last in pairs(held[i]) do
    if last == true then
      news = true
      try("ZADD", key, format("%d", now + limit.period), name)
      try("PEXPIRE", key, ceil(limit.period / 1000))
    elseif not last and kept[i][name] then
      news = true
      try("ZREM", key, name)
    end
  end
  return news
end
