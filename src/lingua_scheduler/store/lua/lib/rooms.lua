-- A room: its facts, members in the order they joined, their holders and wishes, and guests, each in a key of its own.
-- A room has members while it is open, and each of them is in all three keys. Otherwise Redis has lost one of these.
local function is_whole(keys)
  local count = redis.call('HLEN', keys[2])
  return count > 0 and redis.call('ZCARD', keys[3]) == count and redis.call('HLEN', keys[4]) == count
end

local function is_open(keys)
  local known = redis.call('HMGET', keys[1], 'id', 'ended')
  return known[1] and not known[2] and is_whole(keys)
end

local function is_quiet(facts, now_ms, expire_ms)
  return now_ms - (read_number(redis.call('HGET', facts, 'active_ms')) or 0) >= tonumber(expire_ms)
end

local function keep(keys, keep_ms)
  for _, key in ipairs(keys) do redis.call('PEXPIRE', key, keep_ms) end
end

local function change(facts)
  redis.call('HSET', facts, 'version', string.format('%.0f', (read_number(redis.call('HGET', facts, 'version')) or 0) + 1))
end

-- The room as every script replies it, behind the word that says what was done.
local function state(word, keys)
  local facts = redis.call('HMGET', keys[1], 'id', 'record', 'version', 'active_ms', 'locked', 'seq')
  local reply = {word, facts[1] or '', facts[2] or '', facts[3] or '0', facts[4] or '0', facts[5] or '', facts[6] or '0'}
  local guests = redis.call('HGETALL', keys[6])
  reply[#reply + 1] = tostring(#guests)
  for _, text in ipairs(guests) do reply[#reply + 1] = text end
  local order = redis.call('ZRANGE', keys[3], 0, -1, 'WITHSCORES')
  for at = 1, #order, 2 do
    reply[#reply + 1] = order[at]
    reply[#reply + 1] = order[at + 1]
    for _, key in ipairs({keys[2], keys[4], keys[5]}) do reply[#reply + 1] = redis.call('HGET', key, order[at]) or '' end
  end
  return reply
end

-- Members are told apart by the time they joined (microseconds): no two have the same.
local function add(keys, session, holder, about, now_ms)
  local last = redis.call('ZREVRANGE', keys[3], 0, 0, 'WITHSCORES')
  local joined_us = math.max(now_ms * 1000, (read_number(last[2], 16) or 0) + 1)
  redis.call('HSET', keys[2], session, about)
  redis.call('ZADD', keys[3], string.format('%.0f', joined_us), session)
  redis.call('HSET', keys[4], session, holder)
end

-- The code stays in use for a while, so that no instance takes the room for one that Redis has lost.
local function finish(keys, why, keep_ms)
  redis.call('DEL', unpack(keys, 2))
  redis.call('HSET', keys[1], 'ended', why)
  redis.call('PEXPIRE', keys[1], keep_ms)
end

local function drop(keys, session)
  redis.call('HDEL', keys[2], session)
  redis.call('ZREM', keys[3], session)
  redis.call('HDEL', keys[4], session)
  redis.call('HDEL', keys[5], session)
  change(keys[1])
end

-- The first of those who are here.
local function is_host(keys, session)
  return redis.call('ZRANGE', keys[3], 0, 0)[1] == session
end
