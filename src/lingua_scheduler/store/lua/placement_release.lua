-- placement_release: a node is gone, its place may be used again.
-- Replies: released | gone (it has no place, or came back meanwhile; safe to repeat)
local placement = KEYS[1]   -- hash node -> shard serial
local load      = KEYS[2]   -- zset shard -> nodes
local room      = KEYS[3]   -- zset shard -> shard, those with room
local node      = ARGV[1]
local shard     = ARGV[2]
local serial    = ARGV[3]

if redis.call('HGET', placement, node) ~= shard .. ' ' .. serial then return {'gone'} end
redis.call('HDEL', placement, node)
-- A place in a shard that nobody knows was wrong, or the shard was forgotten: it is not made by those who leave.
if redis.call('ZADD', load, 'XX', 'INCR', -1, shard) then redis.call('ZADD', room, shard, shard) end
return {'released'}
