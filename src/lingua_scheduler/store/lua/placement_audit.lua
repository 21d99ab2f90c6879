-- placement_audit: count the nodes placed in each shard anew; with `repair` put right what `load` says.
-- With `shard_size`, `room` is put right too; else by the next node that comes to a shard or leaves it.
-- Replies: a list of kind, shard, detail, kind, shard, detail …
local placement  = KEYS[1]   -- hash node -> shard serial
local load       = KEYS[2]   -- zset shard -> nodes
local room       = KEYS[3]   -- zset shard -> shard, those with room
local most       = ARGV[1]   -- shards there may be
local repair     = ARGV[2]   -- 1: put it right
local shard_size = ARGV[3]   -- most nodes of a shard; empty: whatever it is

local found, counted, last = {}, {}, -1
for _, place in ipairs(redis.call('HVALS', placement)) do
  local shard = tonumber(string.match(place, '^(%d+) '))
  if shard then
    counted[shard] = (counted[shard] or 0) + 1
    last = math.max(last, shard)
  end
end
for _, shard in ipairs(redis.call('ZRANGE', load, 0, -1)) do last = math.max(last, tonumber(shard) or -1) end
for shard = 0, math.min(last, most - 1) do
  local nodes, believed = counted[shard] or 0, redis.call('ZSCORE', load, shard)
  if not believed or tonumber(believed) ~= nodes then
    found[#found + 1], found[#found + 2], found[#found + 3] =
      'load_wrong', tostring(shard), (believed or 0) .. ' ' .. nodes
    if repair == '1' then redis.call('ZADD', load, nodes, shard) end
  end
  if repair == '1' and shard_size ~= '' then
    if nodes < tonumber(shard_size) then redis.call('ZADD', room, shard, shard) else redis.call('ZREM', room, shard) end
  end
end
return found
