-- node_beat: a node is alive and nothing that decides about it changed; its looks may have.
-- Replies: alive | gone (not registered: register it again) | superseded (another connection owns it)
-- include: clock
local seen     = KEYS[1]   -- zset node -> alive until
local owners   = KEYS[2]   -- hash node -> epoch instance connection acknowledges
local looks    = KEYS[3]   -- hash node -> its state and how it looks
local node     = ARGV[1]
local instance = ARGV[2]
local link     = ARGV[3]
local alive_ms = ARGV[4]
local look     = ARGV[5]   -- how it looks by now; empty: as before
local now_ms   = ARGV[6]

local owner = redis.call('HGET', owners, node)
if not owner then return {'gone'} end
local owner_instance, owner_link = string.match(owner, '^%d+ (%S+) (%S+) ')
if owner_instance ~= instance or owner_link ~= link then return {'superseded'} end
redis.call('ZADD', seen, clock(now_ms) + alive_ms, node)
if look ~= '' then
  local state = string.match(redis.call('HGET', looks, node) or '', '^%S+')
  if state then redis.call('HSET', looks, node, state .. ' ' .. look) end
end
return {'alive'}
