-- What all files of the script use. They are one script, in the order that script.go gives.

local floor, ceil, max, min, fmod = math.floor, math.ceil, math.max, math.min, math.fmod
local KEYS, ARGV = KEYS, ARGV

