-- node_remove: remove a node completely. Its leases become overdue: the caller or any sweep ends them.
-- `link` names the connection that must still own it; empty: only if its heartbeats have stopped.
-- Replies: removed past lease… (what is remembered of it: slots earned, quarantine, last outcomes, and of a drained node its process; or empty) | moved pools (repeat with these) | gone | superseded | alive | busy (it has leases, and was to be removed only if it has none)
-- include: clock
-- include: words
-- include: moving
-- include: lease
-- include: leased
local node_key = KEYS[1]             -- hash, the profile
local seen     = KEYS[2]             -- zset node -> alive until
local free     = KEYS[3]             -- zset node -> free slots
local limits   = KEYS[4]             -- hash node -> slots
local owners   = KEYS[5]             -- hash node -> epoch instance connection features
local leases   = KEYS[6]             -- zset lease -> deadline
local summary  = KEYS[7]             -- hash pool -> nodes
local trouble  = KEYS[8]             -- hash node -> its last outcomes
local sick     = KEYS[9]             -- zset node -> quarantined until, node service -> unavailable until
local looks    = KEYS[10]            -- hash node -> its state and how it looks
local queues   = KEYS[11]            -- hash node -> jobs that wait for its GPU
local wide     = KEYS[12]            -- hash wide pool -> its definition
local trust    = KEYS[13]            -- hash node -> slots earned, successes since, slots announced
local pools    = {unpack(KEYS, 14)}  -- sets of node ids, one for each of `names`
local node     = ARGV[1]
local instance = ARGV[2]
local link     = ARGV[3]
local was      = ARGV[4]             -- the pools that the caller expects in its profile
local names    = ARGV[5]             -- those of it that are pools, in the order of `pools`
local services = ARGV[6]             -- kinds of service it may lack
local if_idle  = ARGV[7]             -- 1: only if it has no leases
local now_ms   = ARGV[8]

local owner = redis.call('HGET', owners, node)
if not owner then return {'gone'} end
if link == '' then
  local alive_until = redis.call('ZSCORE', seen, node)
  if alive_until and tonumber(alive_until) > clock(now_ms) then return {'alive'} end
else
  local owner_instance, owner_link = string.match(owner, '^%d+ (%S+) (%S+) ')
  -- An unreadable entry belongs to no node that could reconnect.
  if owner_instance and (owner_instance ~= instance or owner_link ~= link) then return {'superseded'} end
end
local stored = redis.call('HGET', node_key, 'pools') or ''
if stored ~= was then return {'moved', stored} end

local held = leases_of(node, leases)
if if_idle == '1' and #held > 0 then return {'busy'} end

local past = (redis.call('HGET', trust, node) or '') .. '|' .. (redis.call('ZSCORE', sick, node) or '')
  .. '|' .. (redis.call('HGET', trouble, node) or '')
local drain, boot_id = unpack(redis.call('HMGET', node_key, 'drain', 'boot_id'))
if drain == '1' and (boot_id or '') ~= '' then past = past .. '|' .. redis.sha1hex(boot_id) end
local reply = {'removed', past == '||' and '' or past}
for _, lease in ipairs(held) do
  redis.call('ZADD', leases, 0, lease)
  reply[#reply + 1] = lease
end
move_pools(node, words(names), {}, words(names), pools, summary, wide)
redis.call('ZREM', seen, node)
redis.call('ZREM', free, node)
redis.call('HDEL', limits, node)
redis.call('HDEL', owners, node)
redis.call('HDEL', trouble, node)
redis.call('HDEL', trust, node)
redis.call('HDEL', looks, node)
redis.call('HDEL', queues, node)
redis.call('ZREM', sick, node)
for _, service in ipairs(words(services)) do redis.call('ZREM', sick, node .. ' ' .. service) end
redis.call('DEL', node_key)
return reply
