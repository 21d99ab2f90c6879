-- node_register: register a node and add it to its pools, or update what it serves.
-- A registration raises the node's epoch, unless the same process reconnects, and makes the leases of the previous
-- epoch overdue: the caller or any sweep ends them. An update keeps the epoch and must come from the owning connection.
-- A live connection keeps its node: another connection gets it only with the same `boot_id`, or after a check that the
-- previous connection does not respond (`over`).
-- A restore is an update after data loss: everything is written, also what should exist, and a missing node gets the
-- epoch its connection had, so that its leases and messages still count.
-- Jobs it runs without a lease are adopted before any of its slots is offered.
-- A quarantined node that comes back, not on a new connection of a known process, gets its probe sooner.
-- A draining node stays out of the pools until it is resumed or another process registers as it.
-- Replies: registered epoch adopted (job ids in one word list) quarantined until (or empty) lease…
--          | moved pools (it is in other pools than the caller expected; repeat with these)
--          | held instance connection (a registration while another live process has the node)
--          | superseded (an update by a connection that no longer owns the node) | gone (an update of an unknown node)
-- include: clock
-- include: number
-- include: words
-- include: moving
-- include: lease
-- include: leased
-- include: adopting
-- include: believing
local node_key = KEYS[1]             -- hash, the profile
local seen     = KEYS[2]             -- zset node -> alive until
local free     = KEYS[3]             -- zset node -> free slots
local held     = KEYS[4]             -- zset node -> live leases
local limits   = KEYS[5]             -- hash node -> slots
local owners   = KEYS[6]             -- hash node -> epoch instance connection features
local leases   = KEYS[7]             -- zset lease -> deadline
local summary  = KEYS[8]             -- hash pool -> nodes
local looks    = KEYS[9]             -- hash node -> its state and how it looks
local wide     = KEYS[10]            -- hash wide pool -> its definition
local trust    = KEYS[11]            -- hash node -> slots earned, successes since, slots announced
local trouble  = KEYS[12]            -- hash node -> its last outcomes
local sick     = KEYS[13]            -- zset node -> quarantined until
local pools    = {unpack(KEYS, 14)}  -- sets of node ids, one for each of `names`
local node     = ARGV[1]
local verb     = ARGV[2]             -- register | update | restore
local instance = ARGV[3]
local link     = ARGV[4]             -- the connection's id
local boot_id  = ARGV[5]
local features = ARGV[6]             -- 1 if the node acknowledges jobs, else 0; then a letter for each other feature
local claimed  = ARGV[7]             -- slots
local takes    = ARGV[8]             -- 1: the node accepts jobs
local alive_ms = ARGV[9]
local was      = ARGV[10]            -- pools the caller believes it is in
local now      = ARGV[11]            -- pools it serves
local names    = ARGV[12]            -- both lists together, in the order of `pools`
local state    = ARGV[13]
local draining = ARGV[14]            -- the state of a node that is being drained
local look     = ARGV[15]            -- how it looks, beside its state
local reach    = ARGV[16]            -- the definition of the wide pool it serves; empty when it is not wide
local over     = ARGV[17]            -- instance and connection that no longer responds; empty: none is known
local former   = ARGV[18]            -- to restore: the epoch its connection had
local running  = ARGV[19]            -- jobs it runs, as far as is known
local bound_ms = ARGV[20]            -- how long what is adopted holds its slot
local believed = ARGV[21]            -- slots of a new node; 0: all it announces
local past     = ARGV[22]            -- what is remembered of it: slots believed, quarantine, last outcomes, drain; or empty
local probe_ms = ARGV[23]            -- how soon a new process of a quarantined node gets its probe; 0: as any other
local now_ms   = ARGV[24]
local profile  = {unpack(ARGV, 25)}  -- field, value, …

local stored = redis.call('HMGET', node_key, 'pools', 'boot_id', 'drain')
local owner = redis.call('HGET', owners, node)
local epoch, owner_instance, owner_link = string.match(owner or '', '^(%d+) (%S+) (%S+) ')
-- An owner that cannot be read is none.
if verb == 'update' and not epoch then return {'gone'} end
local is_others = epoch and (owner_instance ~= instance or owner_link ~= link)
if verb ~= 'register' and is_others then return {'superseded'} end
local moment = clock(now_ms)
local is_same_process = epoch and boot_id ~= '' and stored[2] == boot_id
local is_deserted = is_others and over == owner_instance .. ' ' .. owner_link
local is_alive = tonumber(redis.call('ZSCORE', seen, node) or 0) > moment
if verb == 'register' and is_others and is_alive and not (is_same_process or is_deserted) then
  return {'held', owner_instance, owner_link}
end
if (stored[1] or '') ~= was then return {'moved', stored[1] or ''} end

local reply = {'registered', 0, '', ''}
local drain = stored[3] or ''
if verb == 'register' and not is_same_process then
  epoch = string.format('%.0f', math.max(moment, (tonumber(epoch) or 0) + 1))
  drain = ''
  for _, lease in ipairs(leases_of(node, leases)) do
    redis.call('ZADD', leases, 0, lease)
    reply[#reply + 1] = lease
  end
end
if verb == 'restore' and not epoch then epoch = former ~= '' and former or string.format('%.0f', moment) end
reply[2] = epoch
redis.call('HSET', owners, node, epoch .. ' ' .. instance .. ' ' .. link .. ' ' .. features)
if bring_back(node, past, not owner, boot_id, trust, sick, trouble) then drain = '1' end
if verb == 'register' and not is_same_process and boot_id ~= '' and tonumber(probe_ms) > 0 then
  hasten_probe(node, probe_ms, sick, trouble)
end
reply[4] = redis.call('ZSCORE', sick, node) or ''
local limit = believe(node, claimed, believed, trust)
redis.call('HSET', limits, node, limit)
redis.call('ZADD', seen, moment + alive_ms, node)
redis.call('HSET', node_key, 'serves', now, 'takes', takes, 'boot_id', boot_id, 'drain', drain, unpack(profile))
-- Also stored with the node: it may be drained and resumed when no other node is in its pool.
if reach == '' then redis.call('HDEL', node_key, 'reach') else redis.call('HSET', node_key, 'reach', reach) end
if drain == '1' then now, takes, state = '', '0', draining end
local leased = tonumber(redis.call('ZSCORE', held, node) or 0)
if verb ~= 'update' then
  local adopted
  adopted, leased = adopt(node, words(running), moment + bound_ms, moment, leases)
  reply[3] = table.concat(adopted, ' ')
  if leased > 0 then redis.call('ZADD', held, leased, node) else redis.call('ZREM', held, node) end
end
if takes == '1' then
  redis.call('ZADD', free, math.max(0, limit - leased), node)
else
  redis.call('ZREM', free, node)
end
move_pools(node, words(was), words(now), words(names), pools, summary, wide, verb == 'restore')
if reach ~= '' and now ~= '' then redis.call('HSET', wide, now, reach) end
redis.call('HSET', node_key, 'pools', now, 'state', state)
redis.call('HSET', looks, node, state .. ' ' .. look)
return reply
