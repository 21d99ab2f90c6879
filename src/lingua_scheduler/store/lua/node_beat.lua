-- node_beat: heartbeat of a node whose capabilities did not change; its load figures may have.
-- Replies: alive trust (slots earned, successes since they grew, slots announced; empty: all slots) | gone (not registered, or its slots are unreadable: write it again) | superseded (another connection owns it)
-- include: clock
-- include: number
local seen     = KEYS[1]   -- zset node -> alive until
local owners   = KEYS[2]   -- hash node -> epoch instance connection features
local looks    = KEYS[3]   -- hash node -> its state and how it looks
local queues   = KEYS[4]   -- hash node -> jobs that wait for its GPU, only nodes that have some
local trust    = KEYS[5]   -- hash node -> slots earned, successes since, slots announced
local limits   = KEYS[6]   -- hash node -> slots
local node     = ARGV[1]
local instance = ARGV[2]
local link     = ARGV[3]
local alive_ms = ARGV[4]
local look     = ARGV[5]   -- how it looks by now; empty: as before
local queue    = ARGV[6]   -- how many jobs wait for its GPU; empty: as many as before
local now_ms   = ARGV[7]

local owner = redis.call('HGET', owners, node)
local owner_instance, owner_link = string.match(owner or '', '^%d+ (%S+) (%S+) ')
-- An owner that cannot be read is none.
if not owner_instance then return {'gone'} end
if owner_instance ~= instance or owner_link ~= link then return {'superseded'} end
if not read_slots(redis.call('HGET', limits, node)) then return {'gone'} end
redis.call('ZADD', seen, clock(now_ms) + alive_ms, node)
if look ~= '' then
  local state = string.match(redis.call('HGET', looks, node) or '', '^%S+')
  if state then redis.call('HSET', looks, node, state .. ' ' .. look) end
end
if queue == '0' then
  redis.call('HDEL', queues, node)
elseif queue ~= '' then
  redis.call('HSET', queues, node, queue)
end
return {'alive', redis.call('HGET', trust, node) or ''}
