-- Reads the changes of one part of the entries that servers share.
-- KEYS     as in change.lua
-- ARGV[1]  the newest change that the caller has read, or "" or "." if it has read none
-- Returns the number of fields in KEYS[1], which is 1 more than the number of texts; the oldest 1000
-- changes that the caller has not read, newest first; their texts; and 1. If the list does not have
-- ARGV[1], or may have lost its oldest changes, returns the number, the whole list, no texts and 0.
local none = ARGV[1] == "" or ARGV[1] == "."
local new, found = {}, none
local step = 64 -- a server that reads often has missed only a few changes
for from = 0, 4095, step do
  local some = redis.call("LRANGE", KEYS[2], from, from + step - 1)
  for _, change in ipairs(some) do
    if change == ARGV[1] then
      found = true
      break
    end
    new[#new + 1] = change
  end
  if #some < step or found and not none then break end
end
local size = redis.call("HLEN", KEYS[1])
if not found or #new == 4096 then return {size, new, {}, 0} end
local oldest, ids = {unpack(new, math.max(1, #new - 999))}, {}
for i, change in ipairs(oldest) do ids[i] = change:sub(9) end
return {size, oldest, #ids > 0 and redis.call("HMGET", KEYS[1], unpack(ids)) or {}, 1}
