-- Sliding logs, as limiter/slidinglog.go counts them. A log is stored as a list of the times of its units, oldest first. If
-- the counter has a ban, the list begins with the negated end of the ban. State: the current time, units used, units of the
-- current time that are not stored yet. A unit expires after a period; requests that write remove expired units.
-- Reads algorithms, fixed, KEYS, call, pcall, tonumber, format, now, ceil, min, max, try, ask, EXACT, MOST. Sets logs,
-- look_log, summed_up, write_log.

algorithms.sliding_log = {
  limit = function(period, amount)
    return { period = period, amount = amount, most = 2 * max(amount, 1), newest = now, log = true }
  end,

  roll = function(_, _, used, new) return now, used, new end,
  fits = fixed.fits,
  take = function(limit, cost, used, new)
    local units = max(min(cost, limit.most - used), 0)
    return used + units, new + units
  end,
  give = function(_, cost, used, new) return max(used - cost, 0), max(new - min(cost, used), 0) end,
}

local logs = {} -- by counter: the index in its list of the oldest unit that has not expired, and the number of units from there

-- Returns the stored time of unit n of a counter, counted from 0.
local function time_of(i, n)
  local log, index = logs[i], logs[i].first + n
  log[index] = log[index] or tonumber(call("LINDEX", KEYS[i], index)) or 0
  return log[index]
end

-- Returns the number of units before a time.
local function units_before(i, time)
  local low, high = 0, logs[i].units
  if high > 0 and time_of(i, high - 1) < time then
    return high
  end
  while low < high do -- usually, not even the first unit is before the time
    local middle = low == 0 and time_of(i, 0) >= time and 0 or math.floor((low + high) / 2)
    if time_of(i, middle) < time then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- Adds units of the current time to a list.
local function push(key, units)
  local times = {}
  for n = 1, units do
    times[n] = format("%d", now)
  end
  for first = 1, units, MOST do
    try("RPUSH", key, unpack(times, first, min(first + MOST - 1, units)))
  end
end

-- A key expires when its newest unit has expired and its ban has ended, or later after a refund.
local function expire(key, limit, banned)
  try("PEXPIRE", key, ceil(max(limit.period, (banned or 0) - now) / 1000))
end

-- Returns the state of a counter and its ban. A value that is not a list counts as unused and is removed. Units from the
-- future, as after the clock stepped back, become units of the current time.
local function look_log(i, limit)
  local key = KEYS[i]
  local log = { first = 0, units = ask("LLEN", key) or 0 }
  logs[i] = log
  local banned = log.units > 0 and -time_of(i, 0) or 0
  banned = banned < EXACT and banned or 0
  if banned > 0 then
    log.first, log.units = 1, log.units - 1
  end
  local late = log.units - units_before(i, now + 1)
  if late > 0 and not pcall("LTRIM", key, 0, -late - 1).err then
    push(key, late)
    expire(key, limit, banned)
  end
  local left = units_before(i, now - limit.period + 1)
  log.first, log.units = log.first + left, log.units - left
  return now, log.units, 0, banned > 0 and banned or nil
end

-- Returns the numbers of limiter.State: the time of the newest unit, the units, and the time at which the needed units fit
-- or, without needed units, the time of the newest unit that is stored.
local function summed_up(i, limit, used, new, needed)
  local function time(n) return n < used - new and min(time_of(i, n), now) or now end
  local newest, excess = used > 0 and time(used - 1) or now, used + (needed or 0) - limit.amount
  if not needed then
    return newest, used, used > new and time(used - new - 1) or 0
  end
  return newest, used, excess > 0 and needed <= limit.amount and time(excess - 1) + limit.period or 0
end

-- Writes the log of a counter. Returns whether there was anything to write.
local function write_log(i, was, s)
  local key, log, kept = KEYS[i], logs[i], s.used - s.prev
  if s == was then
    return false
  end
  if log.first > 0 or kept < log.units then -- LTRIM also removes the ban
    try("LTRIM", key, kept > 0 and log.first or 1, kept > 0 and log.first + kept - 1 or 0)
  end
  push(key, s.prev)
  if s.banned then
    try("LPUSH", key, format("%d", -s.banned))
  end
  if s.prev > 0 or s.banned then
    expire(key, s.limit, s.banned)
  end
  return true
end
