-- node_drain: remove a node from its pools so that it only finishes its running jobs, or put it back.
-- Replies: drained leases | resumed | kept leases (no change) | moved serves (its pools have changed: repeat) | gone
-- include: words
-- include: number
-- include: moving
local node_key = KEYS[1]             -- hash, the profile
local free     = KEYS[2]             -- zset node -> free slots
local held     = KEYS[3]             -- zset node -> live leases
local limits   = KEYS[4]             -- hash node -> slots
local summary  = KEYS[5]             -- hash pool -> nodes
local looks    = KEYS[6]             -- hash node -> its state and how it looks
local wide     = KEYS[7]             -- hash wide pool -> its definition
local pools    = {unpack(KEYS, 8)}   -- sets of node ids, one for each of `serves`
local node     = ARGV[1]
local drain    = ARGV[2]             -- 1: drain, empty: resume
local state    = ARGV[3]             -- the state it is written with
local serves   = ARGV[4]             -- pools the caller believes it serves

local stored = redis.call('HMGET', node_key, 'serves', 'drain', 'takes', 'reach')
if not stored[1] then return {'gone'} end
if stored[1] ~= serves then return {'moved', stored[1]} end
local running = tonumber(redis.call('ZSCORE', held, node) or 0)
if (stored[2] or '') == drain then return {'kept', running} end

local look = string.match(redis.call('HGET', looks, node) or '', '^%S+ (.*)$')
if look then redis.call('HSET', looks, node, state .. ' ' .. look) end
local names = words(serves)
if drain == '1' then
  move_pools(node, names, {}, names, pools, summary, wide)
  redis.call('ZREM', free, node)
  redis.call('HSET', node_key, 'drain', '1', 'pools', '', 'state', state)
  return {'drained', running}
end
move_pools(node, {}, names, names, pools, summary, wide)
if stored[4] and serves ~= '' then redis.call('HSET', wide, serves, stored[4]) end
if stored[3] == '1' then
  redis.call('ZADD', free, math.max(0, (read_slots(redis.call('HGET', limits, node)) or 0) - running), node)
end
redis.call('HSET', node_key, 'drain', '', 'pools', serves, 'state', state)
return {'resumed'}
