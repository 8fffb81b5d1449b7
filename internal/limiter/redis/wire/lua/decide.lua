-- The general path: decides the requests of a batch one by one, each all or nothing, as limiter.Decide does, and releases
-- the charges of requests that were denied elsewhere, as limiter.Limit.GiveBack does.
-- ARGV[2]  after the semicolon (text): the requests; for each hit HIT bytes, four integers
--            3 bytes  the number of its counter in KEYS
--            1 byte   mode + 3 * charge, plus LAST in the last hit of a request, plus GROUPED in a hit with a quota group
--                     mode: 0 enforced, 1 shadow, 2 quota; charge: 0 if admitted, 1 always, 2 reserve, 3 refund, 4 release,
--                     5 settle
--            3 bytes  the number of its limit, from 1
--            7 bytes  cost in units; 0 is a peek, which asks for one unit unless its charge is always; for a hit with a
--                     hold see holds.lua
--          a hit with GROUPED is followed by a byte, the number of its group; a quota without GROUPED is a group of its own
--          a release is followed by three more integers of 7 bytes: at, used and prev of the state after the charge;
--          reserve and settle are followed by two integers of 3 bytes: the numbers of the record's counter and limit
-- Reply    integers: the time; SINGLE; for each hit its result, and the state of its counter after its request: at, used,
--          prev and until. If Redis refused a write, the hits of requests that need a write are REFUSED, and the bytes of
--          Redis' error follow at the end.
-- Reads KEYS, pcall, byte, format, integer, now, stored, put, min, max, limits, text, parse_state, state_text, expiry,
-- expires_alike, failure, held, look, is_held, name_of, write_holds, logs, look_log, summed_up, write_log, SINGLE, ADMITTED,
-- OVER, ALREADY, REFUSED, SETTLED.

local HIT, LAST, GROUPED, ALWAYS, RESERVE, REFUND, RELEASE, SETTLE = 14, 32, 64, 1, 2, 3, 4, 5

local found, states = {}, {} -- by counter, the stored and the current state
local news = {} -- by counter, whether there is anything to write

-- States are immutable, so that a previous one can be restored.
local function new_state(limit, at, used, prev, banned)
  return { limit = limit, at = at, used = used, prev = prev, banned = banned }
end

-- Returns the end of the counter's ban in force, or nil. If the limit has bans, this is no later than the end of a ban that
-- begins now. A limit without bans does not shorten the ban.
local function ban_of(s, limit)
  local ban = s.banned
  return ban and ban > now and min(ban, limit.ban or ban) or nil
end

-- Returns the stored state of a counter.
local function read(i, limit)
  if limit.log then
    return new_state(limit, look_log(i, limit))
  elseif limit.holds then
    return new_state(limit, look(i, limit))
  end
  return new_state(limit, parse_state(stored[i], limit))
end

-- Returns the current state of a counter.
local function state_of(i, limit)
  if not states[i] then
    found[i] = read(i, limit)
    states[i] = found[i]
  end
  return states[i]
end

-- Moves the record of a hit's reservation to hit.reserved, which stays false if the record is unused.
local function take_record(hit)
  local record, limit = state_of(hit.record, hit.record_limit), hit.record_limit
  local _, used, prev = limit.algorithm.roll(limit, record.at, record.used, record.prev)
  if used + prev > 0 then
    hit.reserved = record
    states[hit.record] = new_state(limit, record.at, 0, 0)
  end
end

-- Returns used and prev after the cost of a hit has replaced its reservation, as limiter.Limit.settle does. at, used and prev
-- are the state of the counter rolled to now.
local function settle(hit, at, used, prev)
  local record, limit, algorithm = hit.reserved, hit.record_limit, hit.limit.algorithm
  if record.at > limit.newest then
    return algorithm.take(hit.limit, 0, used, prev)
  end
  local left_at, left_used, left_prev = limit.algorithm.roll(limit, record.at, record.used, record.prev)
  return algorithm.give_back(hit.limit, record.used - hit.cost, at, used, prev, left_at, left_used, left_prev, record.at)
end

-- Charges, refunds or settles the cost of a hit. at, used and prev are the state of its counter rolled to now.
local function write(hit, s, at, used, prev)
  local limit, refund = hit.limit, hit.charge == REFUND
  local change = refund and limit.algorithm.give or limit.algorithm.take
  if hit.reserved then
    used, prev = settle(hit, at, used, prev)
  else
    used, prev = change(limit, hit.cost, used, prev)
  end
  states[hit.counter] = new_state(limit, at, used, prev, ban_of(s, limit))
  if hit.name then
    held[hit.counter][hit.name] = not refund
  end
end

local function is_already(hit)
  if hit.charge == SETTLE then
    return not hit.reserved
  end
  return hit.name and is_held(hit.counter, hit.name) ~= (hit.charge == REFUND)
end

-- Releases an earlier charge, unless a hold of the same name has been taken again since.
local function release(hit, s)
  local i, limit, charged = hit.counter, hit.limit, hit.charged
  local algorithm = limit.algorithm
  if hit.name then
    if is_held(i, hit.name) and held[i][hit.name] == charged.at + limit.period then
      held[i][hit.name] = false
      states[i] = new_state(limit, s.at, s.used - 1, 0)
    end
  elseif limit.log then
    news[i] = write_log(i, found[i], states[i]) or news[i]
    pcall("LREM", KEYS[i], -hit.cost, format("%d", charged.at))
    found[i] = read(i, limit)
    states[i] = found[i]
  elseif s.used + s.prev > 0 and max(s.at, charged.at) <= limit.newest then -- else the age of the charge is unknown
    local left_at, left_used, left_prev = algorithm.roll(limit, charged.at, charged.used, charged.prev)
    local at, used, prev = algorithm.roll(limit, s.at, s.used, s.prev)
    used, prev = algorithm.give_back(limit, hit.cost, at, used, prev, left_at, left_used, left_prev, charged.at)
    states[i] = new_state(limit, at, used, prev, ban_of(s, limit))
  end
end

-- Determines whether a hit exceeds its limit. Writes the hit if it does not, or if it is always charged.
local function try_hit(hit, s)
  local i, limit, charge = hit.counter, hit.limit, hit.charge
  local at, used, prev = limit.algorithm.roll(limit, s.at, s.used, s.prev)
  local ban = ban_of(s, limit)
  if at < s.at or ban and ban < s.banned then -- correct the state even if the hit is denied
    s = new_state(limit, at, used, prev, ban or s.banned)
    states[i] = s
  end
  hit.before, hit.already = s, is_already(hit)
  hit.held_before = hit.name and held[i][hit.name]
  local wanted = max(hit.cost, charge == ALWAYS and 0 or 1)
  hit.over = charge < REFUND and not hit.already
    and (limit.ban and ban ~= nil or not limit.algorithm.fits(limit, wanted, at, used, prev))
  if (hit.cost > 0 or charge == SETTLE) and not hit.already and (not hit.over or charge == ALWAYS) then
    write(hit, s, at, used, prev)
  end
end

-- Restores the states from before a denied request. Then writes refunds and always charged hits, and begins bans.
local function deny(hits)
  for h = #hits, 1, -1 do
    local hit = hits[h]
    states[hit.counter] = hit.before
    if hit.name then
      held[hit.counter][hit.name] = hit.held_before
    end
  end
  for h = 1, #hits do
    local hit = hits[h]
    local s, limit = states[hit.counter], hit.limit
    if hit.charge == SETTLE or hit.cost > 0 and (hit.charge == ALWAYS or hit.charge == REFUND) then
      hit.already = is_already(hit)
      if not hit.already then
        write(hit, s, limit.algorithm.roll(limit, s.at, s.used, s.prev))
      end
    end
  end
  for h = 1, #hits do
    local hit = hits[h]
    local s, limit = states[hit.counter], hit.limit
    if limit.ban and hit.over and hit.mode == 0 and not ban_of(s, limit) then
      states[hit.counter] = new_state(limit, s.at, s.used, s.prev, limit.ban)
    end
  end
end

-- Returns, by counter, the units that must be free for all hits to fit, one after the other.
local function demands(hits)
  local needed, taken = {}, {}
  for h = 1, #hits do
    local hit, i = hits[h], hits[h].counter
    if hit.charge < REFUND then
      local before = taken[i] or 0
      needed[i] = max(needed[i] or 0, before + max(hit.cost, hit.charge == ALWAYS and 0 or 1))
      taken[i] = before + hit.cost
    end
  end
  return needed
end

local function decide(hits)
  local denied, quotas, quotas_over, group_over = false, 0, 0, nil -- group_over: by group, whether one of its quotas is over
  for h = 1, #hits do
    local hit, i, limit = hits[h], hits[h].counter, hits[h].limit
    local s = state_of(i, limit)
    if hit.charge == RELEASE then
      release(hit, s)
    else
      if hit.charge == SETTLE then
        take_record(hit)
      end
      try_hit(hit, s)
    end
    denied = denied or hit.mode == 0 and hit.over
    if hit.group then
      group_over = group_over or {}
      local was, over = group_over[hit.group], hit.mode == 2 and hit.over
      group_over[hit.group] = was or over
      quotas, quotas_over = quotas + (was == nil and 1 or 0), quotas_over + (over and not was and 1 or 0)
    elseif hit.mode == 2 then
      quotas, quotas_over = quotas + 1, quotas_over + (hit.over and 1 or 0)
    end
  end
  denied = denied or quotas > 0 and quotas == quotas_over
  if denied then
    deny(hits)
  end
  local needed = nil -- nil or false until a hit on a log is over
  for h = 1, #hits do
    local hit, i, limit = hits[h], hits[h].counter, hits[h].limit
    local s = states[i]
    if limit.log then
      needed = needed or hit.over and demands(hits)
      local at, used, prev = summed_up(i, limit, s.used, s.prev, hit.over and needed[i])
      s = new_state(limit, at, used, prev, s.banned)
    end
    hit.after = s
    if hit.charge == RESERVE then
      state_of(hit.record, hit.record_limit)
      if hit.cost > 0 and not hit.over and not denied then
        states[hit.record] = new_state(hit.record_limit, s.at, hit.cost, 0)
      end
    end
  end
end

local requests, hits, p = {}, {}, 1
while p <= #text do
  local i1, i2, i3, how, n1, n2, n3 = byte(text, p, p + 6)
  local last, mode = how % GROUPED >= LAST, how % LAST % 3
  local hit = {
    counter = (i1 * 256 + i2) * 256 + i3, limit = limits[(n1 * 256 + n2) * 256 + n3],
    mode = mode, charge = (how % LAST - mode) / 3, cost = integer(text, p + 7),
    before = false, after = false, over = false, already = false, reserved = false, -- set by decide
  }
  p = p + HIT
  if how >= GROUPED then
    hit.group, p = byte(text, p), p + 1
  end
  if hit.limit.holds and hit.cost > 1 then
    hit.name, hit.cost = name_of(hit.cost), hit.cost % 2
  end
  if hit.charge == RELEASE then
    hit.charged = { at = integer(text, p), used = integer(text, p + 7), prev = integer(text, p + 14) }
    p = p + 21
  end
  if hit.charge == RESERVE or hit.charge == SETTLE then
    local r1, r2, r3, l1, l2, l3 = byte(text, p, p + 5)
    hit.record, hit.record_limit = (r1 * 256 + r2) * 256 + r3, limits[(l1 * 256 + l2) * 256 + l3]
    p = p + 6
  end
  hits[#hits + 1] = hit
  if last then
    decide(hits)
    requests[#requests + 1] = hits
    hits = {}
  end
end

-- A replica or a full Redis refuses the first write or none. Only if the user lacks the permission for some commands do
-- writes before a refusal remain although their requests fail.
for i = 1, #KEYS do
  local was, s = found[i], states[i]
  if held[i] then
    news[i] = write_holds(i, s.limit)
  elseif logs[i] then
    news[i] = write_log(i, was, s) or news[i]
  elseif s ~= was and (s.used > 0 or s.prev > 0 or s.banned or stored[i]) then
    local text = state_text(s.at, s.used, s.prev, s.banned)
    news[i] = text ~= stored[i]
    if news[i] and not failure then
      local keep = not was.banned and not s.banned and expires_alike(s.limit, was.at, was.used, s.at, s.used)
      failure = put(KEYS[i], text, not keep and expiry(s.limit, s.at, s.used, s.prev, s.banned))
    end
  end
end

local reply, n = { now, SINGLE }, 2
for r = 1, #requests do
  local hits, refused = requests[r], false
  for h = 1, failure and #hits or 0 do -- requests without a write, such as denials, are answered
    refused = refused or news[hits[h].counter]
  end
  for h = 1, #hits do
    local hit = hits[h]
    local s = hit.after
    reply[n + 1] = refused and REFUSED or hit.over and OVER or hit.already and ALREADY
      or hit.reserved and SETTLED + hit.reserved.used or ADMITTED
    reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = s.at, s.used, s.prev, s.banned or 0
    n = n + 5
  end
end
for b = 1, failure and #failure or 0 do
  reply[n + b] = byte(failure, b)
end
return reply
