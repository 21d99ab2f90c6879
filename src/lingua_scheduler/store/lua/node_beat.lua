-- node_beat: a node is alive and nothing about it changed.
-- Replies: alive | gone (not registered: register it again) | superseded (another connection owns it)
-- include: clock
local seen     = KEYS[1]   -- zset node -> alive until
local owners   = KEYS[2]   -- hash node -> epoch instance connection acknowledges
local node     = ARGV[1]
local instance = ARGV[2]
local link     = ARGV[3]
local alive_ms = ARGV[4]
local now_ms   = ARGV[5]

local owner = redis.call('HGET', owners, node)
if not owner then return {'gone'} end
local owner_instance, owner_link = string.match(owner, '^%d+ (%S+) (%S+) ')
if owner_instance ~= instance or owner_link ~= link then return {'superseded'} end
redis.call('ZADD', seen, clock(now_ms) + alive_ms, node)
return {'alive'}
