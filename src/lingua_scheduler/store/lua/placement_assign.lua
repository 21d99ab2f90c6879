-- placement_assign: assign a node to a shard, the lowest with room; a node that has one keeps it.
-- The serial rises with every call, so that a late clean-up of an earlier registration cannot free a newer place.
-- Replies: placed shard serial | kept shard serial | world_full
-- include: place
local placement  = KEYS[1]   -- hash node -> shard serial
local load       = KEYS[2]   -- zset shard -> nodes
local room       = KEYS[3]   -- zset shard -> shard, those with room
local node       = ARGV[1]
local shard_size = ARGV[2]
local max_shards = ARGV[3]

local kept, serial = read_place(redis.call('HGET', placement, node), max_shards)
if kept then
  redis.call('HSET', placement, node, string.format('%d %.0f', kept, serial + 1))
  return {'kept', tonumber(kept), serial + 1}
end

local shard = redis.call('ZRANGE', room, 0, 0)[1]
while shard and not (string.match(shard, '^%d+$') and tonumber(shard) < tonumber(max_shards)) do
  -- An index that is made anew as nodes come and go: what is no shard leaves it.
  redis.call('ZREM', room, shard)
  shard = redis.call('ZRANGE', room, 0, 0)[1]
end
if not shard then
  -- The lowest unused number. Usually it follows the last one, unless shards were lost, or one is invalid.
  local known = {}
  for _, name in ipairs(redis.call('ZRANGE', load, 0, -1)) do known[name] = true end
  shard = 0
  while known[tostring(shard)] do shard = shard + 1 end
  if shard >= tonumber(max_shards) then return {'world_full'} end
end
redis.call('HSET', placement, node, shard .. ' 1')
if tonumber(redis.call('ZINCRBY', load, 1, shard)) >= tonumber(shard_size) then
  redis.call('ZREM', room, shard)
else
  redis.call('ZADD', room, shard, shard)
end
return {'placed', tonumber(shard), 1}
