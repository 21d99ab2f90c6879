-- placement_audit: count the nodes placed in each shard anew; with `repair` put right what `load` and `room` say.
-- Replies: a list of kind, shard, detail, kind, shard, detail …
local placement  = KEYS[1]   -- hash node -> shard serial
local load       = KEYS[2]   -- zset shard -> nodes
local room       = KEYS[3]   -- zset shard -> shard, those with room
local shard_size = ARGV[1]
local repair     = ARGV[2]   -- 1: put it right

local found, counted, last = {}, {}, -1
local function tell(kind, shard, detail)
  found[#found + 1], found[#found + 2], found[#found + 3] = kind, tostring(shard), detail
end
for _, place in ipairs(redis.call('HVALS', placement)) do
  local shard = tonumber(string.match(place, '^(%d+) '))
  if shard then
    counted[shard] = (counted[shard] or 0) + 1
    last = math.max(last, shard)
  end
end
for _, shard in ipairs(redis.call('ZRANGE', load, 0, -1)) do last = math.max(last, tonumber(shard)) end
for shard = 0, last do
  local nodes, believed = counted[shard] or 0, redis.call('ZSCORE', load, shard)
  if not believed or tonumber(believed) ~= nodes then
    tell('load_wrong', shard, (believed or 0) .. ' ' .. nodes)
    if repair == '1' then redis.call('ZADD', load, nodes, shard) end
  end
  local has_room, offered = nodes < tonumber(shard_size), redis.call('ZSCORE', room, shard)
  if has_room and not offered then
    tell('room_wrong', shard, '0 1')
    if repair == '1' then redis.call('ZADD', room, shard, shard) end
  elseif offered and not has_room then
    tell('room_wrong', shard, '1 0')
    if repair == '1' then redis.call('ZREM', room, shard) end
  end
end
return found
