-- The straight path for other algorithms: as in straight.lua, each counter is charged once if all hits fit.
-- Reply    integers: the time; TOGETHER; for each counter at, used and prev of its state
-- Reads ARGV, byte, integer, now, stored, limits, parse_state, state_text, expiry, expires_alike, GROUP, TOGETHER, write_all,
-- reply.

local function charged_together()
  local reply, texts, lasts, last, n = { now, TOGETHER }, {}, {}, 0, 2
  for p = 1, #ARGV[1], GROUP do
    local n1, n2, n3, s1, s2, s3, s4, c1, c2 = byte(ARGV[1], p + 7, p + GROUP - 1)
    local limit, sum = limits[(n1 * 256 + n2) * 256 + n3], ((s1 * 256 + s2) * 256 + s3) * 256 + s4
    local algorithm, newest, first = limit.algorithm, limit.newest, last + 1
    local roll, fits, take = algorithm.roll, algorithm.fits, algorithm.take
    last = last + c1 * 256 + c2
    for k = first, last do
      local was_at, was_used, was_prev, banned = parse_state(stored[k], limit)
      local at, used, prev = roll(limit, was_at, was_used, was_prev)
      if banned or was_at > newest or not fits(limit, sum, at, used, prev) then
        return
      end
      used, prev = take(limit, sum, used, prev)
      texts[k] = state_text(at, used, prev)
      lasts[k] = not expires_alike(limit, was_at, was_used, at, used) and expiry(limit, at, used, prev)
      reply[n + 1], reply[n + 2], reply[n + 3] = at, used, prev
      n = n + 3
    end
  end
  return reply, texts, lasts
end

reply = ARGV[1] ~= "" and integer(ARGV[1], 1) == 0 and write_all(charged_together())
if reply then
  return reply
end
