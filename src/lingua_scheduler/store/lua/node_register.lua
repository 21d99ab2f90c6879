-- node_register: write a node and put it into its pools, or change what it serves.
-- A registration raises the node's epoch, unless the same process comes back, and makes the leases of the former
-- epoch overdue: whoever asked ends them, or any sweep does. An update keeps the epoch and needs its connection.
-- A node that somebody drains stays out of the pools until it is resumed or registers anew.
-- Replies: registered epoch lease… | moved pools (it stood in other pools than the caller believed; ask again)
--          | superseded (an update by a connection that no longer owns the node) | gone (an update of a node not there)
-- include: clock
-- include: words
-- include: moving
-- include: leased
local node_key = KEYS[1]             -- hash, the profile
local seen     = KEYS[2]             -- zset node -> alive until
local free     = KEYS[3]             -- zset node -> free slots
local held     = KEYS[4]             -- zset node -> live leases
local limits   = KEYS[5]             -- hash node -> slots
local owners   = KEYS[6]             -- hash node -> epoch instance connection acknowledges
local leases   = KEYS[7]             -- zset lease -> deadline
local summary  = KEYS[8]             -- hash pool -> nodes
local looks    = KEYS[9]             -- hash node -> its state and how it looks
local pools    = {unpack(KEYS, 10)}  -- sets of node ids, one for each of `names`
local node     = ARGV[1]
local verb     = ARGV[2]             -- register | update
local instance = ARGV[3]
local link     = ARGV[4]             -- the connection's id
local boot_id  = ARGV[5]
local acks     = ARGV[6]             -- 1: the node acknowledges jobs
local limit    = ARGV[7]
local takes    = ARGV[8]             -- 1: the node takes work
local alive_ms = ARGV[9]
local was      = ARGV[10]            -- pools the caller believes it is in
local now      = ARGV[11]            -- pools it serves
local names    = ARGV[12]            -- both lists together, in the order of `pools`
local state    = ARGV[13]
local draining = ARGV[14]            -- the state of a node that is being drained
local look     = ARGV[15]            -- how it looks, beside its state
local now_ms   = ARGV[16]
local profile  = {unpack(ARGV, 17)}  -- field, value, …

local stored = redis.call('HMGET', node_key, 'pools', 'boot_id', 'drain')
local owner = redis.call('HGET', owners, node)
local epoch, owner_instance, owner_link = string.match(owner or '', '^(%d+) (%S+) (%S+) ')
if verb == 'update' and not owner then return {'gone'} end
if verb == 'update' and (owner_instance ~= instance or owner_link ~= link) then return {'superseded'} end
if (stored[1] or '') ~= was then return {'moved', stored[1] or ''} end

local moment = clock(now_ms)
local reply = {'registered', 0}
local drain = stored[3] or ''
if verb == 'register' and not (epoch and boot_id ~= '' and stored[2] == boot_id) then
  epoch = string.format('%.0f', math.max(moment, (tonumber(epoch) or 0) + 1))
  drain = ''
  for _, lease in ipairs(leases_of(node, leases)) do
    redis.call('ZADD', leases, 0, lease)
    reply[#reply + 1] = lease
  end
end
reply[2] = epoch
redis.call('HSET', owners, node, epoch .. ' ' .. instance .. ' ' .. link .. ' ' .. acks)
redis.call('HSET', limits, node, limit)
redis.call('ZADD', seen, moment + alive_ms, node)
redis.call('HSET', node_key, 'serves', now, 'takes', takes, 'boot_id', boot_id, 'drain', drain, unpack(profile))
if drain == '1' then now, takes, state = '', '0', draining end
if takes == '1' then
  redis.call('ZADD', free, math.max(0, limit - (redis.call('ZSCORE', held, node) or 0)), node)
else
  redis.call('ZREM', free, node)
end
move_pools(node, words(was), words(now), words(names), pools, summary)
redis.call('HSET', node_key, 'pools', now, 'state', state)
redis.call('HSET', looks, node, state .. ' ' .. look)
return reply
