-- placement_restore: a registered node lost its place; it gets the one it is registered in.
-- Replies: restored | kept (it has a place)
local placement = KEYS[1]   -- hash node -> shard serial
local load      = KEYS[2]   -- zset shard -> nodes
local node      = ARGV[1]
local shard     = ARGV[2]

if redis.call('HSETNX', placement, node, shard .. ' 1') == 0 then return {'kept'} end
redis.call('ZINCRBY', load, 1, shard)
return {'restored'}
