-- Sets fields of a hash that servers share.
-- KEYS[1]  the hash
-- ARGV     for each field, its name and its text
for i = 1, #ARGV, 2 do
  -- HDEL goes first, because then Redis lets the script write even if it is out of memory.
  redis.call("HDEL", KEYS[1], ARGV[i])
  redis.call("HSET", KEYS[1], ARGV[i], ARGV[i + 1])
end
return 1 -- because go-redis treats the lack of a value as an error
