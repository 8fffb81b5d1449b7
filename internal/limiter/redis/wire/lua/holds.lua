-- The holds of counters of limits by concurrency, as limiter/concurrency.go keeps them: a sorted set for each counter,
-- of names with the time at which the hold ends. Requests remove the holds that have ended. The key expires with its last
-- hold.
-- ARGV[4]  the names of holds, NAME bytes each. A hit has twice the number of its name for a cost, 1 more if it is no peek.

local NAME = 16
local PART = 1000 -- the most holds of a counter that a request removes, or shortens, which takes Redis 1 to 3 ms

local held = {} -- by counter and name: whether it is held: false, true if it was taken now, or until when
local kept = {} -- the same as it is stored: until when it is held, or false

local function name_of(cost)
  local number = math.floor(cost / 2)
  return string.sub(ARGV[4], (number - 1) * NAME + 1, number * NAME)
end

-- Returns the state of a counter. What is no set of holds is as good as nothing, and removed.
local function look(i, limit)
  local key, longest = KEYS[i], now + limit.period
  held[i], kept[i] = {}, {}
  local last = pcall("ZRANGE", key, "-1", "-1", "WITHSCORES")
  local foreign = last.err and last.err:find("WRONGTYPE", 1, true)
  if last.err and not foreign then
    call("ZRANGE", key, "-1", "-1", "WITHSCORES") -- which fails
  end
  local ends = tonumber(last[2] or 0) or EXACT
  if foreign or last[2] and not (ends >= limit.period and ends < EXACT) then
    pcall("DEL", key)
    return 0, 0, 0
  elseif not last[2] then
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
  if ended > 0 then -- not in vain: Redis lets a script that has written take more memory
    -- A replica refuses it, and can deny all the same.
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

-- Writes the holds of a counter, unless Redis has refused something before. Returns whether there is anything to write,
-- and the error of Redis if there is one.
local function write_holds(i, limit, failure)
  local key, news = KEYS[i], false
  local function try(...)
    local result = not failure and pcall(...)
    news, failure = true, failure or type(result) == "table" and result.err
  end
  for name, last in pairs(held[i]) do
    if last == true then
      try("ZADD", key, format("%d", now + limit.period), name)
      try("PEXPIRE", key, ceil(limit.period / 1000))
    elseif not last and kept[i][name] then
      try("ZREM", key, name)
    end
  end
  return news, failure
end
